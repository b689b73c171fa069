#include "common/model/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/model/file_writers.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ModelPathTest, AFolderWithOneCheckpointIsEnough) {
  const TempFolder folder;
  folder.Write("g1/RWKV7-G1.pth", "");
  folder.Write("g1/rwkv_vocab_v20230424.txt", "");
  folder.Write("g1/config.json", "");
  const auto path = ResolveModelPath(folder.path() + "/g1");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(path->checkpoint, folder.path() + "/g1/RWKV7-G1.pth");
  EXPECT_EQ(path->folder, folder.path() + "/g1");
  EXPECT_EQ(path->name, "RWKV7-G1");
  EXPECT_EQ(path->vocab, folder.path() + "/g1/rwkv_vocab_v20230424.txt");
  EXPECT_EQ(path->hf_config, "");  // belongs to safetensors only
}

TEST(ModelPathTest, SafetensorsAreCalledLikeTheirFolder) {
  const TempFolder folder;
  for (const char* file : {"model.safetensors", "model.safetensors.index.json"}) {
    const std::string base = folder.path() + "/" + file + ".d/RWKV7-G1l-2.9B.x";
    folder.Write(std::string(file) + ".d/RWKV7-G1l-2.9B.x/" + file, "");
    folder.Write(std::string(file) + ".d/RWKV7-G1l-2.9B.x/config.json", "");
    folder.Write(std::string(file) + ".d/RWKV7-G1l-2.9B.x/model-00001-of-00002.safetensors", "");
    for (const std::string& given : {base, base + "/", base + "/" + file}) {
      const auto path = ResolveModelPath(given);
      ASSERT_TRUE(path.ok()) << path.status();
      EXPECT_EQ(path->name, "RWKV7-G1l-2.9B.x") << given;
      EXPECT_EQ(path->hf_config.substr(path->hf_config.rfind('/')), "/config.json");
      EXPECT_EQ(path->vocab, "");
    }
  }
}

TEST(ModelPathTest, VocabTxtComesFirst) {
  const TempFolder folder;
  const std::string file = folder.Write("a.safetensors", "");
  folder.Write("vocab.txt", "");
  folder.Write("rwkv_vocab_v20230424.txt", "");
  const auto path = ResolveModelPath(file);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(path->vocab, folder.path() + "/vocab.txt");
  EXPECT_EQ(path->name, "a");
}

TEST(ModelPathTest, SeveralCheckpointsAreNamed) {
  const TempFolder folder;
  folder.Write("b.pth", "");
  folder.Write("a.pth", "");
  folder.Write("model.safetensors", "");
  const auto path = ResolveModelPath(folder.path());
  EXPECT_EQ(path.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(path.status().message()),
              AllOf(HasSubstr(folder.path()), HasSubstr("a.pth, b.pth, model.safetensors")));
  EXPECT_EQ(ResolveModelPath(folder.path() + "/b.pth")->name, "b");
}

TEST(ModelPathTest, NothingThere) {
  const TempFolder folder;
  for (const std::string& path : {folder.path(), folder.path() + "/nope", std::string()}) {
    const auto resolved = ResolveModelPath(path);
    EXPECT_EQ(resolved.status().code(), absl::StatusCode::kNotFound) << path;
    EXPECT_THAT(std::string(resolved.status().message()), HasSubstr(path));
  }
}

TEST(ModelPathTest, NamesAreLastComponents) {
  EXPECT_EQ(ModelName("RWKV/RWKV7-G1l-2.9B-20261031"), "RWKV7-G1l-2.9B-20261031");
  EXPECT_EQ(ModelName("/models/x.pth"), "x");
  EXPECT_EQ(ModelName("models/x//"), "x");
  EXPECT_EQ(ModelName("x"), "x");
  EXPECT_EQ(ModelName(""), "");
}

}  // namespace
}  // namespace tandem
