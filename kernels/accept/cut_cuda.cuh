#pragma once

#include <cstdint>

#include "kernels/accept/cut.h"
#include "kernels/accept/noise_cuda.cuh"
#include "kernels/accept/row_cuda.cuh"
#include "kernels/accept/select_cuda.cuh"
#include "kernels/accept/weight.h"

namespace tandem {

// The row's buckets, summed over its slices. For a whole block.
__device__ inline void LoadBuckets(const Row& row, CutMemory* memory) {
  static_assert(kRowThreads == kBuckets);
  const int bucket = static_cast<int>(threadIdx.x);
  uint64_t units = 0;
  uint64_t counts = 0;
#pragma unroll 8
  for (int i = 0; i < row.slices; ++i) {
    units += row.BucketsOf(i).units[bucket];
    counts += row.BucketsOf(i).counts[bucket];
  }
  memory->units[bucket] = units;
  memory->counts[bucket] = counts;
  __syncthreads();
}

// Lists the ids of one bucket in row.ids, in any order; returns how many. Ends the buckets of the
// slices. For a whole block.
__device__ inline uint32_t ListBucket(const Row& row, CutMemory* memory, int bucket) {
  if (threadIdx.x == 0) memory->listed = 0;
  __syncthreads();
  const float4* values = reinterpret_cast<const float4*>(row.values);
  const auto list = [&](float t, uint32_t id) {
    if (BucketOf(t) == bucket) row.ids[atomicAdd(&memory->listed, 1u)] = id;
  };
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < row.slices * (kAcceptSlice / 4u); i += kRowThreads) {
    const float4 t = values[i];
    list(t.x, 4 * i);
    list(t.y, 4 * i + 1);
    list(t.z, 4 * i + 2);
    list(t.w, 4 * i + 3);
  }
  __syncthreads();
  return memory->listed;
}

// The units of the ids that rank no lower than `last`, which lies in `bucket`, whose ids are
// listed. For a whole block.
__device__ inline uint64_t UnitsFrom(const Row& row, CutMemory* memory, int bucket, uint32_t listed,
                                     uint64_t last) {
  uint64_t units = 0;
  for (int i = static_cast<int>(threadIdx.x); i < bucket; i += kRowThreads)
    units += memory->units[i];
  for (uint32_t i = threadIdx.x; i < listed; i += kRowThreads) {
    const uint64_t key = KeyOf(row, row.ids[i]);
    if (key >= last) units += Units(Exp(RankValue(key)));
  }
  return BlockAdd(units, memory->parts);
}

// What top_k, top_p and min_p keep of the row. For a whole block.
__device__ inline Cut FindCut(const Row& row, CutMemory* memory) {
  const Sampling& s = row.sampling();
  LoadBuckets(row, memory);
  const auto counts = [=](int i) { return memory->counts[i]; };
  const auto units = [=](int i) { return memory->units[i]; };
  uint64_t total = BlockAdd(memory->units[threadIdx.x], memory->parts);
  uint64_t last_of_k = 0;
  if (HasTopK(s, row.usable)) {
    const uint64_t top_k = static_cast<uint64_t>(s.top_k);
    const Bin bin = FindBin(memory, kBuckets, top_k, counts);
    const uint32_t listed = ListBucket(row, memory, bin.index);
    last_of_k = Select(row, memory, listed, false, top_k - bin.before);
    if (s.order == SamplingOrder::kTemperatureFirst)
      total = UnitsFrom(row, memory, bin.index, listed, last_of_k);
  }
  if (s.top_p >= 1.0f) return MakeCut(s, last_of_k, 0);
  const uint64_t needed = UnitsNeeded(s.top_p, total);
  const Bin bin = FindBin(memory, kBuckets, needed, units);
  const uint32_t listed = ListBucket(row, memory, bin.index);
  return MakeCut(s, last_of_k, Select(row, memory, listed, true, needed - bin.before));
}

// The rank key of the choice of a row whose cuts need its ranking; `largest` is that of its largest
// adjusted logit. For a whole block.
__device__ inline uint64_t ChooseRanked(const Row& row, uint64_t largest, CutMemory* memory) {
  __shared__ float start;
  NoisySearch search = StartSearch(row, largest, FindCut(row, memory), &start);
  const float4* values = reinterpret_cast<const float4*>(row.values);
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < row.slices * (kAcceptSlice / 4u); i += kRowThreads)
    search.Look(values[i], i);
  return BlockMax(search.best, memory->parts);
}

}  // namespace tandem
