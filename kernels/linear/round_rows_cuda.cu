#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>

#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/quantize.h"
#include "kernels/linear/round_rows_cuda.h"
#include "kernels/linear/scratch_cuda.h"

namespace tandem {
namespace {

constexpr int kThreads = 1024;
constexpr int kThreadQuads = 4 * kThreads;  // inputs between a thread's quads
constexpr int kHeld = 4;
static_assert(kThreads / kWarp == kWarp);

struct RoundJob {
  const float* x;  // [M, x_stride]
  size_t x_stride;
  void* to;  // [M, stride]
  size_t stride;
  float* scales;  // [M], or null: rounded as they are
  int inputs;     // K
  bool aligned;   // every row of x is 16-byte aligned
};
struct RoundJobs {
  RoundJob jobs[kMostLinearJobs];
};

// Inputs k ... k + 3 of a row; zeros from K on.
__device__ inline float4 LoadQuad(const RoundJob& job, const float* x, int k) {
  if (job.aligned && k + 4 <= job.inputs) return __ldg(reinterpret_cast<const float4*>(x + k));
  const auto at = [&](int i) { return k + i < job.inputs ? __ldg(x + k + i) : 0.0f; };
  return {at(0), at(1), at(2), at(3)};
}

__device__ inline float LargestOf(float4 v) {
  return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

// The largest of all threads' values, NaN not counted, in every thread.
__device__ inline float BlockLargest(float largest) {
  __shared__ float parts[kThreads / kWarp];
  const auto over_warp = [&] {
    for (int step = kWarp / 2; step > 0; step /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
  };
  over_warp();
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = largest;
  __syncthreads();
  largest = parts[threadIdx.x % kWarp];
  over_warp();
  return largest;
}

__device__ inline float2 ValuesOf(__nv_fp8x2_storage_t codes) {
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3);
  return __half22float2(*reinterpret_cast<const __half2*>(&halves));
}

template <RowType kType>
__device__ inline void StoreQuad(const RoundJob& job, size_t at, float4 v, float scale) {
  __nv_fp8x2_storage_t low = 0, high = 0;
  if (job.scales != nullptr) {
    low = __nv_cvt_float2_to_fp8x2({v.x / scale, v.y / scale}, __NV_SATFINITE, __NV_E4M3);
    high = __nv_cvt_float2_to_fp8x2({v.z / scale, v.w / scale}, __NV_SATFINITE, __NV_E4M3);
    const float2 first = ValuesOf(low), second = ValuesOf(high);
    v = {first.x, first.y, second.x, second.y};
  }
  if constexpr (kType == RowType::kFloat) {
    *reinterpret_cast<float4*>(static_cast<float*>(job.to) + at) = v;
  } else if constexpr (kType == RowType::kBf16) {
    __nv_bfloat162 pairs[2] = {__floats2bfloat162_rn(v.x, v.y), __floats2bfloat162_rn(v.z, v.w)};
    *reinterpret_cast<uint2*>(static_cast<uint16_t*>(job.to) + at) =
        *reinterpret_cast<const uint2*>(pairs);
  } else {
    *reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(job.to) + at) =
        low | static_cast<uint32_t>(high) << 16;
  }
}

// blockIdx.x: row, blockIdx.y: job. A thread holds up to kHeld quads, so that a row is read once,
// all of it at a time; what is beyond them is read twice.
template <RowType kType>
__global__ void __launch_bounds__(kThreads)
    RoundRowsKernel(const __grid_constant__ RoundJobs jobs) {
  const RoundJob& job = jobs.jobs[blockIdx.y];
  const size_t row = blockIdx.x;
  const float* x = job.x + row * job.x_stride;
  const int first = 4 * static_cast<int>(threadIdx.x), end = static_cast<int>(job.stride);
  float4 held[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) held[i] = LoadQuad(job, x, first + i * kThreadQuads);
  float scale = 1.0f;
  if (job.scales != nullptr) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) largest = fmaxf(largest, LargestOf(held[i]));
    for (int k = first + kHeld * kThreadQuads; k < end; k += kThreadQuads)
      largest = fmaxf(largest, LargestOf(LoadQuad(job, x, k)));
    scale = ScaleOf(BlockLargest(largest), 448.0f);
    if (threadIdx.x == 0) job.scales[row] = scale;
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int k = first + i * kThreadQuads;
    if (k < end) StoreQuad<kType>(job, row * job.stride + k, held[i], scale);
  }
  for (int k = first + kHeld * kThreadQuads; k < end; k += kThreadQuads)
    StoreQuad<kType>(job, row * job.stride + k, LoadQuad(job, x, k), scale);
}

template <RowType kType>
void LaunchRounding(const RoundJobs& jobs, int rows, int count, const DeviceCuda& device) {
  Launch(device, RoundRowsKernel<kType>,
         dim3(static_cast<unsigned>(rows), static_cast<unsigned>(count)), dim3(kThreads), 0, jobs);
}

}  // namespace

size_t RoundedRowsBytes(int rows, size_t inputs) {
  // Of every job: the padding of its rows, its scales, and the alignment of both.
  constexpr size_t kPadding = kRoundedStep * sizeof(float) + sizeof(float);
  return static_cast<size_t>(rows) * (inputs * sizeof(float) + kMostLinearJobs * kPadding) +
         kMostLinearJobs * 512;
}

void RoundRowsCuda(const LinearArgs* jobs, int count, RowType type, bool all,
                   const DeviceCuda& device, RoundedRows* rounded) {
  std::fill_n(rounded, count, RoundedRows{});
  const auto wanted = [&](const LinearArgs& args) { return all || args.weight.rounded_inputs; };
  if (std::none_of(jobs, jobs + count, wanted)) return;
  RoundJobs work;
  int used = 0;
  const size_t rows = static_cast<size_t>(jobs->rows);
  const size_t each = type == RowType::kFloat ? 4 : type == RowType::kBf16 ? 2 : 1;
  ScratchTaker taker(device.linear->rows);
  for (int j = 0; j < count; ++j) {
    const LinearArgs& args = jobs[j];
    if (!wanted(args)) continue;
    RoundJob& job = work.jobs[used++];
    job = {.x = args.x.data,
           .x_stride = args.x_stride,
           .stride = static_cast<size_t>(CeilDiv(args.weight.cols, kRoundedStep)) * kRoundedStep,
           .inputs = args.weight.cols,
           .aligned = reinterpret_cast<uintptr_t>(args.x.data) % 16 == 0 && args.x_stride % 4 == 0};
    job.to = taker.Take(rows * job.stride * each);
    if (args.weight.rounded_inputs)
      job.scales = static_cast<float*>(taker.Take(rows * sizeof(float)));
    rounded[j] = {.rows = job.to, .stride = job.stride, .scales = job.scales};
  }
  if (type == RowType::kFloat) {
    LaunchRounding<RowType::kFloat>(work, jobs->rows, used, device);
  } else if (type == RowType::kBf16) {
    LaunchRounding<RowType::kBf16>(work, jobs->rows, used, device);
  } else {
    LaunchRounding<RowType::kE4m3>(work, jobs->rows, used, device);
  }
}

}  // namespace tandem
