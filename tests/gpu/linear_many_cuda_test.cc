#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/linear/linear_cuda.h"
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
  } kJobs[] = {{WeightFormat::kFp8, 256, 256, Epilogue::kStore},
               {WeightFormat::kInt8, 300, 256, Epilogue::kAdd},
               {WeightFormat::kInt6, 4096, 512, Epilogue::kReluSquare},
               {WeightFormat::kBf16, 16, 256, Epilogue::kTanh},
               {WeightFormat::kBf16, 96, 130, Epilogue::kSigmoid},
               {WeightFormat::kFp8, 1, 33, Epilogue::kStore}};
  std::vector<LinearWeight> weights;
  for (const auto& job : kJobs)
    weights.emplace_back(*cuda, random, LinearKind{.format = job.format}, job.outputs, job.cols);
  for (const int rows : {1, 4, 9, 20, 70, 300}) {
    OnDevice device(*cuda);
    std::vector<LinearArgs> jobs;
    std::vector<View<float>> together;
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
                   {.stream = nullptr, .multiprocessors = cuda->threads()});
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (size_t j = 0; j < jobs.size(); ++j) {
      EXPECT_TRUE(SameBits(device.Read(together[j]), device.Read(jobs[j].y)))
          << "op " << j << ", " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace tandem
