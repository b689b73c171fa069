#pragma once

#include <cstdint>

#include "kernels/lanes.h"
#include "kernels/launch_cuda.cuh"
#include "kernels/time_mix_core/time_mix_core.h"

namespace tandem {

inline constexpr int kHead = 64;  // N
// A block works on one head. Four neighbouring threads share a value's 64 keys: part p of them has
// keys 16 i + 4 p + 0..3 in cells 4 i + 0..3, so that a warp's reads of a row in shared memory are
// 64 neighbouring bytes.
inline constexpr int kWkvParts = 4;
inline constexpr int kWkvThreads = kHead * kWkvParts;
inline constexpr int kWkvCells = kHead / kWkvParts;
inline constexpr int kWkvWarps = kWkvThreads / kWarp;

// One thread's cells of S.
struct WkvCells {
  float s[kWkvCells];
};

__device__ inline int ValueOfThread() { return static_cast<int>(threadIdx.x) / kWkvParts; }
__device__ inline int PartOfThread() { return static_cast<int>(threadIdx.x) % kWkvParts; }

// Where this thread's first cell lies in a head's [64 key, 64 value]; cell 4 i + c lies (16 i + c)
// rows further on.
__device__ inline int FirstCell() { return PartOfThread() * 4 * kHead + ValueOfThread(); }

// `state` [64 key, 64 value] of one head.
__device__ inline WkvCells LoadCells(const float* state) {
  WkvCells cells;
#pragma unroll
  for (int e = 0; e < kWkvCells; ++e) {
    cells.s[e] = state[FirstCell() + (e / 4 * 16 + e % 4) * kHead];
  }
  return cells;
}
__device__ inline void StoreCells(const WkvCells& cells, float* state) {
#pragma unroll
  for (int e = 0; e < kWkvCells; ++e) {
    state[FirstCell() + (e / 4 * 16 + e % 4) * kHead] = cells.s[e];
  }
}

// The four values of shared row [64] that belong to cells 4 i + 0..3.
__device__ inline float4 KeysOfCells(const float* row, int i) {
  return reinterpret_cast<const float4*>(row)[i * kWkvParts + PartOfThread()];
}

// S D + u b + v k for one key: the only place where this sum is written, because replay must repeat
// its bits.
__device__ inline float UpdatedKey(float s, float decay, float u, float b, float v, float k) {
  return __fmaf_rn(v, k, __fmaf_rn(u, b, __fmul_rn(s, decay)));
}

// One token; decay, k, b are shared rows [64], u and v this thread's value of it.
__device__ inline void UpdateCells(WkvCells& cells, const float* decay, const float* k,
                                   const float* b, float u, float v) {
#pragma unroll
  for (int i = 0; i < kWkvCells / 4; ++i) {
    const float4 d4 = KeysOfCells(decay, i), k4 = KeysOfCells(k, i), b4 = KeysOfCells(b, i);
    float* const s = cells.s + 4 * i;
    s[0] = UpdatedKey(s[0], d4.x, u, b4.x, v, k4.x);
    s[1] = UpdatedKey(s[1], d4.y, u, b4.y, v, k4.y);
    s[2] = UpdatedKey(s[2], d4.z, u, b4.z, v, k4.z);
    s[3] = UpdatedKey(s[3], d4.w, u, b4.w, v, k4.w);
  }
}

// The product of a value's 64 cells with shared row [64], in all threads of the value.
__device__ inline float DotCells(const WkvCells& cells, const float* row) {
  float4 sums = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int i = 0; i < kWkvCells / 4; ++i) {
    const float4 r4 = KeysOfCells(row, i);
    sums.x = __fmaf_rn(cells.s[4 * i], r4.x, sums.x);
    sums.y = __fmaf_rn(cells.s[4 * i + 1], r4.y, sums.y);
    sums.z = __fmaf_rn(cells.s[4 * i + 2], r4.z, sums.z);
    sums.w = __fmaf_rn(cells.s[4 * i + 3], r4.w, sums.w);
  }
  float sum = (sums.x + sums.y) + (sums.z + sums.w);
  for (int step = 1; step < kWkvParts; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  return sum;
}

// One head's part of the log entries of a slot, in shared memory.
struct WkvLog {
  alignas(16) float decay[kMaxDrafts][kHead];
  alignas(16) float k[kMaxDrafts][kHead];
  alignas(16) float b[kMaxDrafts][kHead];
  float v[kMaxDrafts][kHead];
  float u[kMaxDrafts][kHead];
};

// Entries [0, count) of a slot's log, of which `entries` is this head's start: [kMaxDrafts, 5, C].
// A barrier must follow before ReplayCells.
__device__ inline void LoadLog(const float* entries, int count, int width, WkvLog& log) {
  static_assert(kWkvWarps == kMaxDrafts, "a warp loads an entry");
  const int i = static_cast<int>(threadIdx.x) / kWarp, at = 2 * (threadIdx.x % kWarp);
  if (i >= count) return;
  float* const to[5] = {log.decay[i], log.k[i], log.v[i], log.u[i], log.b[i]};
#pragma unroll
  for (int row = 0; row < 5; ++row) {
    const float* from = entries + (static_cast<size_t>(i) * 5 + row) * width + at;
    *reinterpret_cast<float2*>(to[row] + at) = *reinterpret_cast<const float2*>(from);
  }
}

// Applies `count` entries in token order.
__device__ inline void ReplayCells(WkvCells& cells, const WkvLog& log, int count) {
  const int value = ValueOfThread();
  for (int i = 0; i < count; ++i) {
    UpdateCells(cells, log.decay[i], log.k[i], log.b[i], log.u[i][value], log.v[i][value]);
  }
}

}  // namespace tandem
