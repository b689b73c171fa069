#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/linear/expand_cuda.cuh"
#include "kernels/linear/quantize.h"
#include "kernels/linear/sparse_cuda.cuh"
#include "kernels/linear/unpack_cuda.h"

namespace tandem {
namespace {

constexpr int kThreads = 256;

struct UnpackJob {
  const uint8_t* weight;
  const uint8_t* scales;  // of Int6 with sparse inputs, [neuron blocks][channel tiles * 128] bf16
  uint8_t* to;            // [padded, stride] of bf16 or E4M3
  size_t stride;
  int first;   // output
  int padded;  // outputs
  int outputs;
  int inputs;
};

__device__ inline __nv_bfloat162 Times(__nv_bfloat162 pair, float scale) {
  return __floats2bfloat162_rn(__low2float(pair) * scale, __high2float(pair) * scale);
}

// Four values as bf16 or E4M3.
template <bool kE4m3>
__device__ inline void StoreQuad(uint8_t* to, __nv_bfloat162 first, __nv_bfloat162 second) {
  if constexpr (kE4m3) {
    const auto codes = [](__nv_bfloat162 pair) -> uint32_t {
      return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(pair), __NV_SATFINITE, __NV_E4M3);
    };
    *reinterpret_cast<uint32_t*>(to) = codes(first) | codes(second) << 16;
  } else {
    *reinterpret_cast<uint2*>(to) = {AsBits(first), AsBits(second)};
  }
}

// A warp per tile and step; what it unpacks passes through shared memory, so that it is written in
// whole rows. blockIdx.x: 8 steps, blockIdx.y: tile of the part.
template <WeightFormat kFormat, bool kE4m3>
__global__ void __launch_bounds__(kThreads)
    UnpackDenseKernel(const __grid_constant__ UnpackJob job) {
  using Step = DenseStep<kFormat>;
  constexpr int kEach = kE4m3 ? 1 : 2, kRowBytes = Step::kInputs * kEach, kPadded = kRowBytes + 16;
  __shared__ __align__(16) uint8_t rows[kThreads / kWarp][kTileOutputs][kPadded];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int step = static_cast<int>(blockIdx.x) * (kThreads / kWarp) + warp;
  if (step * Step::kInputs >= static_cast<int>(job.stride)) return;
  const int steps = CeilDiv(job.inputs, Step::kInputs);
  const size_t tile = job.first / kTileOutputs + blockIdx.y;
  const uint8_t* from = job.weight + (tile * steps + step) * Step::kBytes;
  float2 scale = {1.0f, 1.0f};
  if constexpr (kFormat == WeightFormat::kInt6) {
    if (step < steps) scale = LoadInt6Scales(from, lane);
  }
#pragma unroll
  for (int j = 0; j < Step::kInputs / kMmaInputs; ++j) {
    Weights w = {};
    if (step < steps) w = LoadWeights<kFormat>(from, j, lane);
    __nv_bfloat162 pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = AsBf16x2(w.a[i]);
      if constexpr (kFormat == WeightFormat::kInt6)
        pairs[i] = Times(pairs[i], i % 2 == 0 ? scale.x : scale.y);
    }
    const int at = (j * kMmaInputs + lane % 4 * 4) * kEach;
    StoreQuad<kE4m3>(&rows[warp][lane / 4][at], pairs[0], pairs[2]);
    StoreQuad<kE4m3>(&rows[warp][lane / 4 + 8][at], pairs[1], pairs[3]);
  }
  __syncwarp();
  constexpr int kParts = kRowBytes / 16;
  for (int i = lane; i < kTileOutputs * kParts; i += kWarp) {
    const int output = i / kParts, at = i % kParts * 16;
    const size_t row = blockIdx.y * kTileOutputs + output;
    *reinterpret_cast<uint4*>(job.to + row * job.stride * kEach + step * kRowBytes + at) =
        *reinterpret_cast<const uint4*>(&rows[warp][output][at]);
  }
}

// Channels 2 p and 2 p + 1 of a neuron's tile.
template <WeightFormat kFormat>
__device__ inline float2 ChannelPair(const uint8_t* tile, int p) {
  const uint32_t* words = reinterpret_cast<const uint32_t*>(tile);
  if constexpr (kFormat == WeightFormat::kInt6) {
    const int h = p / 4;
    return Int6WeightPair(words[h], words[16 + h / 2], h % 2, p % 4);
  } else {
    return WeightPair<kFormat>(words, p);
  }
}

// blockIdx.x: block of neurons, blockIdx.y: channel tile of the part.
template <WeightFormat kFormat, bool kE4m3>
__global__ void __launch_bounds__(kThreads)
    UnpackSparseKernel(const __grid_constant__ UnpackJob job) {
  __shared__ __nv_bfloat16 values[kChannelTile][kNeuronBlock + 2];
  const int tiles = CeilDiv(job.outputs, kChannelTile);
  const size_t block = blockIdx.x;
  const int tile = job.first / kChannelTile + static_cast<int>(blockIdx.y);
  constexpr int kPairs = kChannelTile / 2;
  for (int i = threadIdx.x; i < kNeuronBlock * kPairs; i += kThreads) {
    const int neuron = i / kPairs, p = i % kPairs;
    const uint8_t* from =
        job.weight + ((block * kNeuronBlock + neuron) * tiles + tile) * SparseTile<kFormat>::kBytes;
    float2 pair = ChannelPair<kFormat>(from, p);
    if constexpr (kFormat == WeightFormat::kInt6) {
      const uint16_t* scales = reinterpret_cast<const uint16_t*>(job.scales) +
                               (block * tiles + tile) * kChannelTile + 2 * p;
      pair = {pair.x * Bf16ToFloat(scales[0]), pair.y * Bf16ToFloat(scales[1])};
    }
    values[2 * p][neuron] = __float2bfloat16_rn(pair.x);
    values[2 * p + 1][neuron] = __float2bfloat16_rn(pair.y);
  }
  __syncthreads();
  constexpr int kQuads = kNeuronBlock / 4;
  for (int i = threadIdx.x; i < kChannelTile * kQuads; i += kThreads) {
    const int channel = i / kQuads, n = i % kQuads * 4;
    const int output = static_cast<int>(blockIdx.y) * kChannelTile + channel;
    if (output >= job.padded) continue;
    const __nv_bfloat16* v = &values[channel][n];
    const size_t at = output * job.stride + block * kNeuronBlock + n;
    StoreQuad<kE4m3>(job.to + at * (kE4m3 ? 1 : 2), {v[0], v[1]}, {v[2], v[3]});
  }
}

// Bytes of a packed matrix before its scales.
template <WeightFormat kFormat>
size_t CodeBytes(const Matrix& matrix) {
  if (matrix.sparse_inputs) return SparseCodeBytes<kFormat>(matrix.rows, matrix.cols);
  using Step = DenseStep<kFormat>;
  return static_cast<size_t>(CeilDiv(matrix.rows, kTileOutputs)) *
         CeilDiv(matrix.cols, Step::kInputs) * Step::kBytes;
}

template <WeightFormat kFormat, bool kE4m3>
void Unpack(const UnpackJob& job, bool sparse, const DeviceCuda& device) {
  if (sparse) {
    const dim3 grid(static_cast<unsigned>(job.stride / kNeuronBlock),
                    static_cast<unsigned>(CeilDiv(job.padded, kChannelTile)));
    return Launch(device, UnpackSparseKernel<kFormat, kE4m3>, grid, dim3(kThreads), 0, job);
  }
  const int steps = static_cast<int>(job.stride) / DenseStep<kFormat>::kInputs;
  const dim3 grid(static_cast<unsigned>(CeilDiv(steps, kThreads / kWarp)),
                  static_cast<unsigned>(job.padded / kTileOutputs));
  Launch(device, UnpackDenseKernel<kFormat, kE4m3>, grid, dim3(kThreads), 0, job);
}

}  // namespace

void UnpackCuda(const Matrix& matrix, int first, int count, bool e4m3, void* to, size_t stride,
                const DeviceCuda& device) {
  UnpackJob job = {.weight = static_cast<const uint8_t*>(matrix.data),
                   .to = static_cast<uint8_t*>(to),
                   .stride = stride,
                   .first = first,
                   .padded = CeilDiv(count, kUnpackedPadding) * kUnpackedPadding,
                   .outputs = matrix.rows,
                   .inputs = matrix.cols};
  if (e4m3) return Unpack<WeightFormat::kFp8, true>(job, matrix.sparse_inputs, device);
  WithFormat(matrix.format, [&](auto tag) {
    constexpr WeightFormat kFormat = decltype(tag)::value;
    job.scales = job.weight + CodeBytes<kFormat>(matrix);
    Unpack<kFormat, false>(job, matrix.sparse_inputs, device);
  });
}

const float* OutputScales(const Matrix& matrix) {
  const float* scales = nullptr;
  WithFormat(matrix.format, [&](auto tag) {
    constexpr WeightFormat kFormat = decltype(tag)::value;
    const uint8_t* codes = static_cast<const uint8_t*>(matrix.data);
    if constexpr (DenseStep<kFormat>::kRowScale)
      scales = reinterpret_cast<const float*>(codes + CodeBytes<kFormat>(matrix));
  });
  return scales;
}

}  // namespace tandem
