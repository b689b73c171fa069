#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/model/weights_source.h"
#include "tests/unit/model/file_writers.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kFirst[] = "model-00001-of-00002.safetensors";
constexpr char kSecond[] = "model-00002-of-00002.safetensors";

// The tiny model under official names in two shards: the first in bf16, the second in fp32.
struct Shards {
  std::vector<TestTensor> first;
  std::vector<TestTensor> second;
  nlohmann::json map;
};

Shards TinyShards() {
  Shards shards;
  const auto bf16 = ToOfficial(TinyModel(DType::kBf16));
  const auto fp32 = ToOfficial(TinyModel(DType::kFp32));
  for (size_t i = 0; i < bf16.size(); ++i) {
    const bool first = i < bf16.size() / 2;
    (first ? shards.first : shards.second).push_back(first ? bf16[i] : fp32[i]);
    shards.map[bf16[i].name] = first ? kFirst : kSecond;
  }
  return shards;
}

absl::StatusOr<std::unique_ptr<WeightsSource>> Load(const TempFolder& folder,
                                                    const Shards& shards) {
  folder.Write(kFirst, SafetensorsOf(shards.first));
  folder.Write(kSecond, SafetensorsOf(shards.second));
  folder.Write(
      kIndex,
      nlohmann::json({{"metadata", {{"total_size", 1}}}, {"weight_map", shards.map}}).dump());
  return WeightsSource::Open(folder.path());
}

std::string ErrorOf(const Shards& shards) {
  const TempFolder folder;
  const auto source = Load(folder, shards);
  return source.ok() ? "no error" : std::string(source.status().message());
}

TEST(ShardTest, ShardsOfDifferentTypesMakeOneModel) {
  const TempFolder folder;
  const auto source = Load(folder, TinyShards());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->dtype("emb.weight"), DType::kBf16);
  EXPECT_EQ((*source)->dtype("head.weight"), DType::kFp32);
  EXPECT_EQ((*source)->ReadFp32("head.weight")[7], TinyValue("head.weight", 7));
  EXPECT_EQ((*source)->ReadFp32("emb.weight")[7], TinyValue("emb.weight", 7));
  // The model is called like its folder.
  EXPECT_EQ((*source)->name(), folder.path().substr(folder.path().rfind('/') + 1));
}

TEST(ShardTest, IndexAndShardsMustAgree) {
  EXPECT_EQ(ErrorOf(TinyShards()), "no error");
  Shards twice = TinyShards();
  twice.second.push_back(twice.first[3]);
  EXPECT_THAT(ErrorOf(twice), HasSubstr(twice.first[3].name + ": listed in model-00001"));
  Shards unlisted = TinyShards();
  unlisted.map.erase("head.weight");
  EXPECT_THAT(ErrorOf(unlisted), HasSubstr("head.weight: not listed by the index"));
  Shards missing = TinyShards();
  missing.second.pop_back();
  EXPECT_THAT(ErrorOf(missing), HasSubstr("head.weight: missing from model-00002"));
  Shards no_file = TinyShards();
  no_file.map["head.weight"] = "model-00003-of-00003.safetensors";
  EXPECT_THAT(ErrorOf(no_file), HasSubstr("model-00003-of-00003.safetensors"));
}

TEST(ShardTest, ShardNamesStayInTheFolder) {
  for (const nlohmann::json& name :
       {nlohmann::json("../model.safetensors"), nlohmann::json("/etc/passwd"),
        nlohmann::json("model.bin"), nlohmann::json(7), nlohmann::json(nullptr)}) {
    Shards shards = TinyShards();
    shards.map["head.weight"] = name;
    EXPECT_THAT(ErrorOf(shards), HasSubstr("head.weight: its shard is not the name")) << name;
  }
}

TEST(ShardTest, AnIndexWithoutAMapIsRefused) {
  const TempFolder folder;
  for (const char* text : {"{}", "{\"weight_map\": []}", "[]", "", "{\"weight_map\": {}}"}) {
    folder.Write(kIndex, text);
    const auto source = WeightsSource::Open(folder.path());
    ASSERT_FALSE(source.ok()) << text;
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(kIndex)) << text;
  }
}

}  // namespace
}  // namespace tandem
