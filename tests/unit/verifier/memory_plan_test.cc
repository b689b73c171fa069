#include "services/verifier/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "common/model/synthetic.h"
#include "services/verifier/step.h"
#include "tests/forwarding_backend.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr char kDemo[] = "deploy/demo-model";

// Counts what is allocated.
class CountingBackend final : public ForwardingBackend {
 public:
  CountingBackend() : ForwardingBackend(MakeCpuBackend(2)) {}
  void* Allocate(size_t bytes) override {
    allocated_ += bytes;
    return ForwardingBackend::Allocate(bytes);
  }
  void* AllocateExported(size_t bytes, ExportHandle* handle) override {
    allocated_ += bytes;
    return ForwardingBackend::AllocateExported(bytes, handle);
  }
  // Since the last call.
  size_t Allocated() { return std::exchange(allocated_, 0); }

 private:
  size_t allocated_ = 0;
};

TEST(MemoryPlanTest, IsWhatIsAllocated) {
  const auto source = WeightsSource::Open(kDemo);
  ASSERT_TRUE(source.ok()) << source.status();
  const EngineOptions engine = {.max_sequences = 5, .prefill_budget = 100};
  const WeightsOptions kinds[] = {{},
                                  {.matrices = WeightFormat::kInt6, .head = WeightFormat::kFp8}};
  for (const WeightsOptions& options : kinds) {
    CountingBackend backend;
    const std::vector<MemoryShare> plan = PlanMemory(
        backend, ModelWeights::Measure(&backend, **source, options), (*source)->config(), engine);
    ASSERT_EQ(plan.size(), 5u);
    EXPECT_EQ(backend.Allocated(), 0u);
    const auto weights = ModelWeights::Load(&backend, **source, options);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(plan[0].bytes + plan[1].bytes + plan[2].bytes, backend.Allocated());
    const auto state = RecurrentState::Create(&backend, (*source)->config(), 5);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(plan[3].bytes, backend.Allocated());
    const Rwkv7 model(weights->get());
    const auto step = Step::Create(&backend, &model, state->get(),
                                   {.max_lanes = 5, .max_rows = engine.max_rows()});
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(plan[4].bytes, backend.Allocated());
  }
}

TEST(MemoryPlanTest, SyntheticWeightsAreMeasuredToo) {
  auto model = SyntheticOfSize("tiny");
  ASSERT_TRUE(model.ok());
  model->format = WeightFormat::kInt8;
  CountingBackend backend;
  const ModelWeights::Bytes bytes = MeasureSynthetic(&backend, *model);
  EXPECT_EQ(backend.Allocated(), 0u);
  ASSERT_TRUE(MakeSynthetic(&backend, *model).ok());
  EXPECT_EQ(bytes.total(), backend.Allocated());
}

TEST(MemoryPlanTest, TooMuchNamesWhatForAndWhichFlagsLowerIt) {
  const std::vector<MemoryShare> plan = {{"the layers' weights", size_t{3} << 30, "--weights"},
                                         {"the embedding table", size_t{512} << 20, ""}};
  EXPECT_TRUE(CheckPlan(plan, "cuda", std::nullopt).ok());
  EXPECT_TRUE(CheckPlan(plan, "cuda", TotalOf(plan)).ok());
  const absl::Status status = CheckPlan(plan, "cuda", size_t{2} << 30);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message(),
      "not enough cuda memory: 2.00 GiB are free of 3.50 GiB: 3.00 GiB for the layers' "
      "weights (--weights), 512.0 MiB for the embedding table; the flags in brackets lower it");
}

// 2,692,864 parameters of 16 bits, and 2 x 520 positions of keys and values of 4 heads of 128.
TEST(MemoryPlanTest, TheSidecarIsItsParametersAndItsKeysAndValues) {
  const auto source = WeightsSource::Open(kDemo);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto sidecar =
      MtpFile::Open(std::string(kDemo) + "/mtp",
                    {.name = (*source)->name(), .layers = 8, .width = 256, .vocab = 4096}, false);
  ASSERT_TRUE(sidecar.ok()) << sidecar.status();
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const size_t keys = size_t{2} * 520 * 2 * 512 * 4;
  EXPECT_EQ(SidecarShare(*backend, **sidecar, WeightFormat::kBf16, 2).bytes,
            size_t{2692864} * 2 + keys);
  EXPECT_LT(SidecarShare(*backend, **sidecar, WeightFormat::kInt6, 2).bytes,
            size_t{2692864} + keys);
}

}  // namespace
}  // namespace tandem
