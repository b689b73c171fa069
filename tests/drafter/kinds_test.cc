#include "common/drafter/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/drafter/demo.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DrafterSetup DemoSetup() {
  const Demo& demo = Demo::Get();
  const ModelConfig& config = demo.model().config();
  return {.folder = "deploy/demo-model/mtp",
          .base_name = "rwkv7-demo-9m",
          .layers = config.layers,
          .width = config.width,
          .vocab = config.vocab,
          .embedding = demo.weights().embedding(),
          .head = demo.weights().head(),
          .slots = 4,
          .max_lanes = 4,
          .max_rows = 1};
}

TEST(DrafterKindsTest, Mtp) {
  auto loaded = LoadDrafter("mtp", &Demo::Get().backend(), DemoSetup());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->drafter->max_drafts(), kMaxDrafts);
  EXPECT_EQ(loaded->drafter->slots(), 4);
  EXPECT_THAT(loaded->taps, ElementsAre(2, 5));
  EXPECT_TRUE(loaded->warnings.empty());
  EXPECT_EQ(loaded->content_hash, Demo::Get().sidecar().content_hash());
}

TEST(DrafterKindsTest, UnknownKindNamesTheKnownOnes) {
  const absl::Status status = LoadDrafter("medusa", &Demo::Get().backend(), DemoSetup()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"medusa\"; known kinds: mtp"));
}

TEST(DrafterKindsTest, ErrorsOfTheFilesPassThrough) {
  DrafterSetup setup = DemoSetup();
  setup.base_name = "rwkv7-other";
  const absl::Status other = LoadDrafter("mtp", &Demo::Get().backend(), setup).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  setup.force = true;
  auto forced = LoadDrafter("mtp", &Demo::Get().backend(), setup);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(forced->warnings.size(), 1u);
}

}  // namespace
}  // namespace tandem
