#pragma once

#include <cstdint>

#include "kernels/accept/cut.h"
#include "kernels/accept/noise_cuda.cuh"
#include "kernels/accept/row_cuda.cuh"
#include "kernels/accept/weight.h"

namespace tandem {

// Shared memory of one slice: its buckets, the units in two halves of 20 bits, whose sums fit.
struct SliceSums {
  uint32_t counts[kBuckets];
  uint32_t low[kBuckets];
  uint32_t high[kBuckets];
};

__device__ inline void AddToBucket(float t, bool weigh, SliceSums* sums) {
  const int bucket = BucketOf(t);
  atomicAdd(&sums->counts[bucket], 1u);
  if (!weigh) return;
  const uint64_t units = Units(Exp(t));
  if (units == 0) return;
  atomicAdd(&sums->low[bucket], static_cast<uint32_t>(units & 0xFFFFFu));
  atomicAdd(&sums->high[bucket], static_cast<uint32_t>(units >> 20));
}

// The buckets of t, two groups of four ids per thread. For a whole block.
__device__ inline void FillBuckets(const Row& row, const float4 (&t)[2], SliceSums* sums) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kBuckets; i += kSliceThreads)
    sums->counts[i] = sums->low[i] = sums->high[i] = 0;
  __syncthreads();
  const bool weigh = row.sampling().top_p < 1.0f;
#pragma unroll
  for (const float4& four : t) {
    AddToBucket(four.x, weigh, sums);
    AddToBucket(four.y, weigh, sums);
    AddToBucket(four.z, weigh, sums);
    AddToBucket(four.w, weigh, sums);
  }
  __syncthreads();
  SliceBuckets& out = row.BucketsOf(static_cast<int>(blockIdx.x));
  for (int i = thread; i < kBuckets; i += kSliceThreads) {
    out.counts[i] = sums->counts[i];
    out.units[i] = (uint64_t{sums->high[i]} << 20) + sums->low[i];
  }
}

// t of a slice, and of it either the choice or, where the cuts need a ranking, the buckets.
__device__ inline void WeighSlice(const Row& row, SliceSums* sums, uint64_t* parts, float* start) {
  const Sampling& s = row.sampling();
  const uint64_t largest = RowMax(row, &SliceRecord::largest, parts);
  const float top = RankValue(largest);
  if (top == kExcluded) return;
  const float temperature = CutTemperature(s);
  const int first_group =
      static_cast<int>(blockIdx.x) * (kAcceptSlice / 4) + static_cast<int>(threadIdx.x);
  float4* values = reinterpret_cast<float4*>(row.values);
  float4 t[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float4 l = values[first_group + j * kSliceThreads];
    t[j] = {(l.x - top) / temperature, (l.y - top) / temperature, (l.z - top) / temperature,
            (l.w - top) / temperature};
  }
  if (HasRankCuts(s, row.usable)) {
#pragma unroll
    for (int j = 0; j < 2; ++j) values[first_group + j * kSliceThreads] = t[j];
    FillBuckets(row, t, sums);
    return;
  }
  NoisySearch search = StartSearch(row, largest, MakeCut(s, 0, 0), start);
#pragma unroll
  for (int j = 0; j < 2; ++j)
    search.Look(t[j], static_cast<uint32_t>(first_group + j * kSliceThreads));
  const uint64_t choice = BlockMax(search.best, parts);
  if (threadIdx.x == 0) row.records[blockIdx.x].choice = choice;
}

}  // namespace tandem
