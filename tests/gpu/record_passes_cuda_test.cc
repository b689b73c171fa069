// What the verifier records at its start serves the passes that follow, wherever their features go.

#include <memory>
#include <vector>

#include "common/model/weights.h"
#include "common/model/weights_source.h"
#include "gmock/gmock.h"
#include "services/verifier/record_passes.h"
#include "tests/gpu/on_device.h"

namespace tandem {
namespace {

constexpr int kSlots = 3;

TEST(RecordPassesCudaTest, LaterPassesReplay) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  auto source = WeightsSource::Open("deploy/demo-model");
  ASSERT_TRUE(source.ok()) << source.status();
  auto weights = ModelWeights::Load(cuda.get(), **source);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const Rwkv7 model(weights->get());
  const auto state = *RecurrentState::Create(cuda.get(), model.config(), kSlots);
  const auto step =
      *Step::Create(cuda.get(), &model, state.get(), {.max_lanes = kSlots, .max_rows = 64});
  const auto recorded =
      RecordPasses(*cuda, *DraftSchedule::Parse("0:2"), {.taps = {2, 5}}, *state, *step);
  EXPECT_EQ(recorded.count, 3 + 5 + 7);
  EXPECT_EQ(cuda->graph_counts().recorded, recorded.count);

  OnDevice device(*cuda);
  const size_t row = 3 * static_cast<size_t>(model.config().width);
  const std::vector<int32_t> tokens = {11, 22, 33};
  const Sampling sampling;
  const auto run = [&](float* features) {
    const Slot slot = *state->Acquire();
    const absl::Span<const int32_t> all = tokens;
    const StepLane lane = {.slot = &slot,
                           .certain = all.first(1),
                           .drafts = all.subspan(1),
                           .choose = true,
                           .sampling = &sampling};
    step->Run({lane}, {.taps = {2, 5}, .rows = features});
  };
  const View<float> first = device.Out<float>(3 * row), second = device.Out<float>(3 * row);
  run(first.data);
  run(nullptr);
  run(second.data);
  EXPECT_EQ(cuda->graph_counts().recorded, recorded.count);
  EXPECT_EQ(cuda->graph_counts().replayed, 3);
  EXPECT_THAT(device.Read(first), testing::Not(testing::Contains(testing::IsNan())));
  EXPECT_EQ(device.Read(first), device.Read(second));
}

}  // namespace
}  // namespace tandem
