#include <algorithm>
#include <cstdint>

#include "kernels/launch_cuda.cuh"
#include "kernels/linear/epilogue_cuda.cuh"
#include "kernels/linear/gemm_cuda.h"
#include "kernels/linear/round_rows_cuda.h"
#include "kernels/linear/unpack_cuda.h"

namespace tandem {
namespace {

// What a matrix is cut into parts for: a head would need 0.5 GB, the large matrices of 7.2B fit.
constexpr size_t kMostWeightBytes = size_t{128} << 20;
constexpr int kMostPartOutputs = 16384;
constexpr int kThreads = 256;

struct FinishJob {
  const float* sums;      // [M, sum_stride]
  const float* x_scales;  // [M], or null
  const float* scales;    // [count], or null
  float* y;               // [M, y_stride]
  size_t sum_stride;
  size_t y_stride;
  int count;
  Epilogue epilogue;
};

// blockIdx.x: row, blockIdx.y: 256 outputs.
__global__ void FinishKernel(const __grid_constant__ FinishJob job) {
  const int n = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (n >= job.count) return;
  const size_t row = blockIdx.x;
  float sum = job.sums[row * job.sum_stride + n];
  if (job.x_scales != nullptr) sum *= job.x_scales[row];
  if (job.scales != nullptr) sum *= job.scales[n];
  float* y = job.y + row * job.y_stride + n;
  *y = ApplyEpilogue(job.epilogue, sum, y);
}

int RoundDown(size_t value, int unit) { return static_cast<int>(value / unit) * unit; }

}  // namespace

size_t GemmCuda::WeightBytes(const Matrix& matrix) {
  const size_t outputs = static_cast<size_t>(CeilDiv(matrix.rows, kUnpackedPart)) * kUnpackedPart;
  const size_t inputs = static_cast<size_t>(CeilDiv(matrix.cols, kRoundedStep)) * kRoundedStep;
  return std::min(outputs * inputs * sizeof(uint16_t), kMostWeightBytes);
}

size_t GemmCuda::SumBytes(int rows, int outputs) {
  const int padded = CeilDiv(outputs, kUnpackedPart) * kUnpackedPart;
  return static_cast<size_t>(rows) * std::min(padded, kMostPartOutputs) * sizeof(float);
}

bool GemmCuda::Run(const LinearArgs& args, const DeviceCuda& device) {
  if (args.rows <= kMostInvariantRows) return false;
  const Matrix& matrix = args.weight;
  const bool e4m3 = matrix.rounded_inputs;
  const int stride = CeilDiv(matrix.cols, kRoundedStep) * kRoundedStep;
  const size_t fit =
      std::min(memory_.weights.bytes / (static_cast<size_t>(stride) * (e4m3 ? 1 : 2)),
               memory_.sums.bytes / (static_cast<size_t>(args.rows) * sizeof(float)));
  const int part = std::min(RoundDown(fit, kUnpackedPart), kMostPartOutputs);
  if (part == 0) return false;
  const auto shape_of = [&](int first) {
    const int count = std::min(part, matrix.rows - first);
    return GemmShape{.rows = args.rows,
                     .outputs = CeilDiv(count, kUnpackedPadding) * kUnpackedPadding,
                     .inputs = stride,
                     .e4m3 = e4m3};
  };
  const int last = (matrix.rows - 1) / part * part;
  if (!library_->Takes(shape_of(0)) || !library_->Takes(shape_of(last))) return false;
  RoundedRows rounded;
  RoundRowsCuda(&args, 1, e4m3 ? RowType::kE4m3 : RowType::kBf16, /*all=*/true, device, &rounded);
  for (int first = 0; first <= last; first += part)
    RunPart(args, first, std::min(part, matrix.rows - first), shape_of(first), rounded, device);
  return true;
}

void GemmCuda::RunPart(const LinearArgs& args, int first, int count, const GemmShape& shape,
                       const RoundedRows& rounded, const DeviceCuda& device) {
  const float* const scales = OutputScales(args.weight);
  float* const sums = reinterpret_cast<float*>(memory_.sums.data);
  UnpackCuda(args.weight, first, count, shape.e4m3, memory_.weights.data, rounded.stride, device);
  library_->Multiply(shape, memory_.weights.data, rounded.rows, sums, memory_.workspace.data,
                     device.stream);
  const FinishJob job = {.sums = sums,
                         .x_scales = rounded.scales,
                         .scales = scales == nullptr ? nullptr : scales + first,
                         .y = args.y.data + first,
                         .sum_stride = static_cast<size_t>(shape.outputs),
                         .y_stride = args.y_stride,
                         .count = count,
                         .epilogue = args.epilogue};
  Launch(device, FinishKernel,
         dim3(static_cast<unsigned>(args.rows), static_cast<unsigned>(CeilDiv(count, kThreads))),
         dim3(kThreads), 0, job);
}

}  // namespace tandem
