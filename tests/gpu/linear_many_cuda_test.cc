#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/round_rows_cuda.h"
#include "kernels/linear/scratch_cuda.h"
#include "tests/gpu/linear_rig.h"

namespace tandem {
namespace {

// Ops of one launch give the bits of the same ops alone.
TEST(LinearManyCudaTest, EqualsTheOpsAlone) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  Random random(1);
  const struct {
    WeightFormat format;
    int outputs, cols;
    Epilogue epilogue;
    bool rounded = false;
  } kJobs[] = {{WeightFormat::kFp8, 256, 256, Epilogue::kStore},
               {WeightFormat::kInt8, 300, 256, Epilogue::kAdd},
               {WeightFormat::kInt6, 4096, 512, Epilogue::kReluSquare},
               {WeightFormat::kBf16, 16, 256, Epilogue::kTanh},
               {WeightFormat::kBf16, 96, 130, Epilogue::kSigmoid},
               {WeightFormat::kFp8, 256, 200, Epilogue::kAdd, true},
               {WeightFormat::kFp8, 100, 256, Epilogue::kReluSquare, true},
               {WeightFormat::kFp8, 1, 33, Epilogue::kStore}};
  std::vector<LinearWeight> weights;
  size_t inputs = 0;
  for (const auto& job : kJobs) {
    const LinearKind kind = {.format = job.format, .rounded_inputs = job.rounded};
    weights.emplace_back(*cuda, random, kind, job.outputs, job.cols);
    inputs += static_cast<size_t>(job.cols);
  }
  for (const int rows : {1, 4, 9, 20, 70, 300}) {
    OnDevice device(*cuda);
    std::vector<LinearArgs> jobs;
    std::vector<View<float>> together;
    ASSERT_TRUE(cuda->ReserveLinear({.rows = rows, .inputs = inputs}));
    const View<uint8_t> memory = device.Out<uint8_t>(RoundedRowsBytes(rows, inputs));
    const LinearScratchCuda scratch = {.rows = {memory.data, memory.size}};
    for (size_t j = 0; j < weights.size(); ++j) {
      const Matrix& matrix = weights[j].matrix;
      const size_t cols = static_cast<size_t>(matrix.cols),
                   outputs = static_cast<size_t>(matrix.rows);
      const std::vector<float> before = random.Vector(rows * outputs, -1.0f, 1.0f);
      jobs.push_back({.rows = rows,
                      .weight = matrix,
                      .x = device.In(random.Vector(rows * cols, -2.0f, 2.0f)),
                      .x_stride = cols,
                      .y = device.In(before),
                      .y_stride = outputs,
                      .epilogue = kJobs[j].epilogue});
      cuda->Linear(jobs.back());
      together.push_back(device.In(before));
    }
    std::vector<LinearArgs> many = jobs;
    for (size_t j = 0; j < jobs.size(); ++j) many[j].y = together[j];
    cuda->Wait();
    LinearManyCuda(many.data(), static_cast<int>(many.size()),
                   {.stream = nullptr, .multiprocessors = cuda->threads(), .linear = &scratch});
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (size_t j = 0; j < jobs.size(); ++j) {
      EXPECT_TRUE(SameBits(device.Read(together[j]), device.Read(jobs[j].y)))
          << "op " << j << ", " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace tandem
