// Times the linear ops with cold weights: more than 200 MB of distinct matrices in turn, as one
// recorded graph. Prints a table on stderr and a JSON line per row on stdout.
//
//   linear_bench_cuda [format]      all formats without one: Bf16, Fp8, Int8, Int6, and Fp8Rounded,
//                                   Fp8 with rounded inputs
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/round_rows_cuda.h"
#include "kernels/linear/scratch_cuda.h"

namespace tandem {
namespace {

constexpr double kCeiling = 4540.0;  // GB/s of a read-only stream on an H200
constexpr size_t kColdBytes = size_t{256} << 20;
constexpr int kWarmUps = 3, kRuns = 25;
constexpr int kMostRows = 512;
constexpr size_t kMostInputs = 16384;  // of the rounded matrices of a launch

__device__ uint32_t Hash(uint32_t i) {
  i = (i ^ (i >> 16)) * 0x7feb352du;
  i = (i ^ (i >> 15)) * 0x846ca68bu;
  return i ^ (i >> 16);
}

// Random bf16 in +-(0.5 ... 1).
__global__ void FillWeightsKernel(uint16_t* bf16, size_t count) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    const uint32_t random = Hash(static_cast<uint32_t>(i));
    bf16[i] = static_cast<uint16_t>((random & 0x8000u) | 0x3f00u | (random & 0x7fu));
  }
}
// Random values in [0.5, 1.5), of which a share of `live` is not zero.
__global__ void FillInputsKernel(float* x, size_t count, float live) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    const uint32_t random = Hash(static_cast<uint32_t>(i) + 12345u);
    const float share = static_cast<float>(random >> 8) * 0x1p-24f;
    x[i] = share < live ? 0.5f + static_cast<float>(random & 0xffu) / 256.0f : 0.0f;
  }
}

template <class T>
T* Allocate(size_t count) {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, std::max<size_t>(count, 1) * sizeof(T)));
  return static_cast<T*>(memory);
}

struct Shape {
  const char* name;
  std::vector<Matrix> matrices;  // of one launch
};

struct Format {
  WeightFormat format;
  const char* name;
  bool rounded_inputs = false;
};
constexpr Format kFormats[] = {
#define TANDEM_WEIGHT_FORMAT(name, folder) {WeightFormat::k##name, #name},
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT
    {WeightFormat::kFp8, "Fp8Rounded", /*rounded_inputs=*/true},
};

// Several copies of the matrices of a shape, so that none of them is in the cache when its turn
// comes.
class ColdWeights final {
 public:
  ColdWeights(const Shape& shape, const DeviceCuda& device) {
    for (const Matrix& matrix : shape.matrices) bytes_ += LinearPackedBytesCuda(matrix);
    const size_t copies = std::max<size_t>(1, (kColdBytes + bytes_ - 1) / bytes_);
    copies_.assign(copies, shape.matrices);
    for (size_t j = 0; j < shape.matrices.size(); ++j) {
      const Matrix& matrix = shape.matrices[j];
      const size_t count = static_cast<size_t>(matrix.rows) * matrix.cols;
      uint16_t* bf16 = Allocate<uint16_t>(count);
      Launch(device, FillWeightsKernel, dim3(1024), dim3(256), 0, bf16, count);
      for (std::vector<Matrix>& copy : copies_) {
        void* to = Allocate<uint8_t>(LinearPackedBytesCuda(matrix));
        LinearPackCuda(to, matrix, bf16, device);
        copy[j].data = to;
      }
      CUDA_CHECK(cudaStreamSynchronize(device.stream));
      CUDA_CHECK(cudaFree(bf16));
    }
  }
  ~ColdWeights() {
    for (const std::vector<Matrix>& copy : copies_) {
      for (const Matrix& matrix : copy) (void)cudaFree(const_cast<void*>(matrix.data));
    }
  }

  const std::vector<std::vector<Matrix>>& copies() const { return copies_; }
  size_t bytes() const { return bytes_; }

 private:
  std::vector<std::vector<Matrix>> copies_;
  size_t bytes_ = 0;  // of one copy
};

// One launch of all matrices of a shape, each with inputs and outputs of its own.
void Enqueue(const std::vector<Matrix>& matrices, int rows, float* x, float* y,
             const DeviceCuda& device) {
  std::vector<LinearArgs> jobs;
  for (const Matrix& matrix : matrices) {
    const size_t cols = static_cast<size_t>(matrix.cols),
                 outputs = static_cast<size_t>(matrix.rows);
    jobs.push_back({.rows = rows,
                    .weight = matrix,
                    .x = {x, rows * cols},
                    .x_stride = cols,
                    .y = {y, rows * outputs},
                    .y_stride = outputs});
    x += rows * cols;
    y += rows * outputs;
  }
  if (jobs.size() > 1) {
    LinearManyCuda(jobs.data(), static_cast<int>(jobs.size()), device);
  } else {
    LinearCuda(jobs[0], device);
  }
}

struct Times {
  double median_us, p10_us, p90_us;  // of one launch
};

Times TimeOf(const ColdWeights& weights, int rows, float* x, float* y, const DeviceCuda& device) {
  const size_t launches = std::max<size_t>(weights.copies().size(), rows > 64 ? 2 : 8);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA_CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal));
  for (size_t i = 0; i < launches; ++i)
    Enqueue(weights.copies()[i % weights.copies().size()], rows, x, y, device);
  CUDA_CHECK(cudaStreamEndCapture(device.stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t begin, end;
  CUDA_CHECK(cudaEventCreate(&begin));
  CUDA_CHECK(cudaEventCreate(&end));
  std::vector<double> times;
  for (int run = 0; run < kWarmUps + kRuns; ++run) {
    CUDA_CHECK(cudaEventRecord(begin, device.stream));
    CUDA_CHECK(cudaGraphLaunch(exec, device.stream));
    CUDA_CHECK(cudaEventRecord(end, device.stream));
    CUDA_CHECK(cudaEventSynchronize(end));
    float ms = 0.0f;
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (run >= kWarmUps) times.push_back(1000.0 * ms / static_cast<double>(launches));
  }
  CUDA_CHECK(cudaGraphExecDestroy(exec));
  CUDA_CHECK(cudaGraphDestroy(graph));
  CUDA_CHECK(cudaEventDestroy(begin));
  CUDA_CHECK(cudaEventDestroy(end));
  std::sort(times.begin(), times.end());
  return {times[kRuns / 2], times[kRuns / 10], times[kRuns * 9 / 10]};
}

// Share of the neurons that are live in one of the rows.
double LiveUnion(const float* x, int rows, int neurons) {
  std::vector<float> host(static_cast<size_t>(rows) * neurons);
  CUDA_CHECK(cudaMemcpy(host.data(), x, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
  int live = 0;
  for (int k = 0; k < neurons; ++k) {
    bool any = false;
    for (int m = 0; m < rows; ++m) any = any || host[static_cast<size_t>(m) * neurons + k] != 0.0f;
    live += any ? 1 : 0;
  }
  return static_cast<double>(live) / neurons;
}

void Bench(const Shape& shape, const Format& format, const std::vector<float>& shares,
           const DeviceCuda& device) {
  const ColdWeights weights(shape, device);
  size_t inputs = 0, outputs = 0;
  for (const Matrix& matrix : shape.matrices) {
    inputs += static_cast<size_t>(matrix.cols);
    outputs += static_cast<size_t>(matrix.rows);
  }
  for (const float share : shares) {
    for (const int rows : {1, 2, 4, 8, 64, kMostRows}) {
      float* x = Allocate<float>(rows * inputs);
      float* y = Allocate<float>(rows * outputs);
      Launch(device, FillInputsKernel, dim3(256), dim3(256), 0, x, rows * inputs, share);
      CUDA_CHECK(cudaStreamSynchronize(device.stream));
      const bool sparse = shape.matrices[0].sparse_inputs;
      const double read = sparse ? LiveUnion(x, rows, shape.matrices[0].cols) : 1.0;
      const Times times = TimeOf(weights, rows, x, y, device);
      const double mb = static_cast<double>(weights.bytes()) * read / 1e6;
      const double gbps = mb * 1e3 / times.median_us;
      const double tflops = 2e-6 * rows * static_cast<double>(outputs) *
                            (static_cast<double>(inputs) / shape.matrices.size()) / times.median_us;
      std::fprintf(
          stderr,
          "%-18s %-10s live %4.2f M %4d %9.2f us %8.2f MB %7.0f GB/s %5.1f %% %6.1f TFLOP/s\n",
          shape.name, format.name, read, rows, times.median_us, mb, gbps, 100.0 * gbps / kCeiling,
          tflops);
      std::printf(
          "{\"bench\":\"linear\",\"shape\":\"%s\",\"format\":\"%s\",\"rows\":%d,"
          "\"live\":%.3f,\"us\":%.3f,\"p10_us\":%.3f,\"p90_us\":%.3f,\"mb\":%.3f,"
          "\"gbps\":%.1f,\"percent\":%.2f}\n",
          shape.name, format.name, rows, read, times.median_us, times.p10_us, times.p90_us, mb,
          gbps, 100.0 * gbps / kCeiling);
      CUDA_CHECK(cudaFree(x));
      CUDA_CHECK(cudaFree(y));
    }
  }
}

void BenchFormat(const Format& format, const DeviceCuda& device) {
  const auto matrix = [&](int rows, int cols) {
    return Matrix{.format = format.format,
                  .rows = rows,
                  .cols = cols,
                  .rounded_inputs = format.rounded_inputs};
  };
  const auto low_rank = [&](int rows) {
    return Matrix{.format = WeightFormat::kBf16, .rows = rows, .cols = 4096};
  };
  const Matrix square = matrix(4096, 4096);
  Matrix value = matrix(4096, 16384);
  value.sparse_inputs = true;
  const std::vector<float> dense = {1.0f};
  Bench({"rkv+low 13120x4096",
         {square, square, square, low_rank(128), low_rank(128), low_rank(96), low_rank(480)}},
        format, dense, device);
  Bench({"4096x4096", {square}}, format, dense, device);
  Bench({"16384x4096", {matrix(16384, 4096)}}, format, dense, device);
  Bench({"65536x4096", {matrix(65536, 4096)}}, format, dense, device);
  Bench({"value 4096x16384", {value}}, format, {0.1f, 0.3f}, device);
}

int Main(int count, char** arguments) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) {
    std::fprintf(stderr, "no CUDA device\n");
    return 1;
  }
  DeviceCuda device = {.multiprocessors = properties.multiProcessorCount};
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  device.stream = stream;
  LinearScratchCuda scratch;
  scratch.rows.bytes = RoundedRowsBytes(kMostRows, kMostInputs);
  scratch.rows.data = Allocate<uint8_t>(scratch.rows.bytes);
  device.linear = &scratch;
  std::fprintf(stderr, "%s, %d multiprocessors, L2 %d MB\n", properties.name,
               properties.multiProcessorCount, properties.l2CacheSize >> 20);
  for (const Format& format : kFormats) {
    if (count > 1 && std::strcmp(arguments[1], format.name) != 0) continue;
    BenchFormat(format, device);
  }
  CUDA_CHECK(cudaFree(scratch.rows.data));
  CUDA_CHECK(cudaStreamDestroy(stream));
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int count, char** arguments) { return tandem::Main(count, arguments); }
