#include "common/model/weight_format.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(WeightFormatTest, EveryFormatHasItsName) {
  const struct {
    const char* name;
    WeightFormat format;
  } cases[] = {{"bf16", WeightFormat::kBf16},
               {"fp8", WeightFormat::kFp8},
               {"int8", WeightFormat::kInt8},
               {"int6", WeightFormat::kInt6}};
  for (const auto& c : cases) {
    EXPECT_STREQ(WeightFormatName(c.format), c.name);
    const auto parsed = ParseWeightFormat("weights", c.name, AllWeightFormats());
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, c.format);
  }
}

TEST(WeightFormatTest, OthersAreRefusedWithTheFlag) {
  const auto unknown = ParseWeightFormat("weights", "fp4", AllWeightFormats());
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(), "--weights=fp4: must be one of bf16, fp8, int8, int6");
  const auto head = ParseWeightFormat("head-weights", "int6", HeadWeightFormats());
  EXPECT_EQ(head.status().message(), "--head-weights=int6: must be one of bf16, fp8, int8");
}

TEST(WeightFormatTest, AFileMayDecide) {
  EXPECT_EQ(*ParseFileWeightFormat("weights", "file", AllWeightFormats()), std::nullopt);
  EXPECT_EQ(*ParseFileWeightFormat("weights", "int6", AllWeightFormats()), WeightFormat::kInt6);
  const auto unknown = ParseFileWeightFormat("head-weights", "int6", HeadWeightFormats());
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(),
            "--head-weights=int6: must be one of bf16, fp8, int8, or file");
}

TEST(WeightFormatTest, ActivationsAreExactOrFp8) {
  EXPECT_EQ(ParseActivations("activations", "exact").value(), false);
  EXPECT_EQ(ParseActivations("activations", "fp8").value(), true);
  EXPECT_EQ(ParseActivations("activations", "fp4").status(),
            absl::InvalidArgumentError("--activations=fp4: must be one of exact, fp8"));
}

}  // namespace
}  // namespace tandem
