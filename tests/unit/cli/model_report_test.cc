#include "services/cli/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "services/cli/runtime_directory.h"

namespace tandem::cli {
namespace {

using testing::HasSubstr;

constexpr char kDemoModel[] = "deploy/demo-model";

TEST(SizeClassTest, PublishedSizesByLayersAndWidth) {
  EXPECT_EQ(SizeClass(32, 2560, 2947735040), "2.9B");
  EXPECT_EQ(SizeClass(61, 4096, 13269245952), "13.3B");
  EXPECT_EQ(SizeClass(8, 256, 9067264), "9.1M");
  EXPECT_EQ(SizeClass(40, 2560, 3600000000), "3.6B");
}

TEST(EstimateMemoryTest, FollowsTheShapes) {
  const MemoryEstimate memory = EstimateMemory(
      {.layers = 8, .width = 256, .heads = 4, .ffn = 1024, .vocab = 4096}, 20311040, 32);
  EXPECT_EQ(memory.weights, 20311040);
  EXPECT_EQ(memory.state, 32 * 8 * 256 * 66 * 4);
  EXPECT_EQ(memory.log, 32 * 8 * 256 * 7 * 8 * 4);
  EXPECT_EQ(memory.total(), 20311040 + 17301504 + 14680064);
}

TEST(InspectModelTest, TheDemoModelAsItsCardDescribesIt) {
  const auto report = InspectModel(kDemoModel, "auto", false, 32);
  ASSERT_TRUE(report.ok()) << report.status();
  const nlohmann::json json = ReportJson(*report);
  EXPECT_EQ(json["name"], "rwkv7-demo-9m");
  EXPECT_EQ(json["layers"], 8);
  EXPECT_EQ(json["width"], 256);
  EXPECT_EQ(json["heads"], 4);
  EXPECT_EQ(json["vocabulary_size"], 4096);
  EXPECT_EQ(json["parameters"], 9067264);
  EXPECT_EQ(json["ranks"]["g"], 64);
  // Of the parameters 39,680 are vectors (19 C L + 4 C - C) and 4096 x 256 the embedding, both 4
  // bytes each, the rest 2 bytes.
  EXPECT_EQ(json["memory_bytes"]["weights"], 7979008 * 2 + 1088256 * 4);
  EXPECT_EQ(json["components"][1]["dtype"], "bf16");
  EXPECT_EQ(json["sidecar"]["matches"], true);
  EXPECT_EQ(json["sidecar"]["parameters"], 2692864);
  EXPECT_EQ(json["sidecar"]["depth"], 3);
  EXPECT_EQ(json["memory_bytes"]["sidecar_ring"], 32 * 520 * 2 * 512 * 4);
  const std::string text = ReportText(*report);
  EXPECT_THAT(text, HasSubstr("rwkv7-demo-9m, RWKV-7 of size 9.1M"));
  EXPECT_THAT(text, HasSubstr("matches; 2692864 parameters"));
}

TEST(InspectModelTest, SaysWhatIsWrongWithTheVocabulary) {
  const auto directory = RuntimeDirectory::Create();
  ASSERT_TRUE(directory.ok());
  const std::string folder = directory->File("model");
  std::filesystem::copy(kDemoModel, folder);
  const std::string vocabulary = folder + "/vocab.txt";
  const auto sound = InspectModel(folder, "off", false, 1);
  ASSERT_TRUE(sound.ok()) << sound.status();
  EXPECT_EQ(sound->vocabulary_error, "");
  EXPECT_EQ(sound->vocabulary_tokens, 4095u);
  // In the middle of a line.
  std::filesystem::resize_file(vocabulary, 5001);
  const auto cut = InspectModel(folder, "off", false, 1);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(cut->vocabulary_error, HasSubstr("vocab.txt"));
  EXPECT_THAT(ReportText(*cut), HasSubstr("not usable: "));
  std::filesystem::remove(vocabulary);
  EXPECT_THAT(ReportText(*InspectModel(folder, "off", false, 1)), HasSubstr("token ids only"));
}

TEST(InspectModelTest, SaysWhyThereIsNoSidecar) {
  const auto off = InspectModel(kDemoModel, "off", false, 1);
  ASSERT_TRUE(off.ok());
  EXPECT_FALSE(off->sidecar.matches);
  EXPECT_EQ(off->memory.sidecar_ring, 0);
  EXPECT_THAT(ReportText(*off), HasSubstr("none: switched off"));
  EXPECT_FALSE(InspectModel(kDemoModel, "/nowhere", false, 1).ok());
  EXPECT_FALSE(InspectModel("/nowhere", "auto", false, 1).ok());
}

}  // namespace
}  // namespace tandem::cli
