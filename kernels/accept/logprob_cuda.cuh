#pragma once

#include <cstdint>

#include "kernels/accept/logprob.h"
#include "kernels/accept/row_cuda.cuh"
#include "kernels/accept/weight.h"

namespace tandem {

__device__ inline int Alternatives(const Row& row) {
  return min(row.sampling().top_logprobs, kMaxTopLogprobs);
}

// A slice's part of the row's sum of e^l, and its largest raw logits. For a whole block.
__device__ inline void SliceLogprobs(const AcceptArgs& args, const Row& row, uint64_t* parts) {
  const float largest = RankValue(RowMax(row, &SliceRecord::raw_largest, parts));
  const int first = static_cast<int>(blockIdx.x) * kAcceptSlice + static_cast<int>(threadIdx.x);
  SliceRecord& record = row.records[blockIdx.x];
  uint64_t keys[kSliceValues];
  uint64_t units = 0;
#pragma unroll
  for (int j = 0; j < kSliceValues; ++j) {
    const int id = first + j * kSliceThreads;
    const float l = id < args.vocab ? NanToLowest(row.logits[id]) : kExcluded;
    if (l > kExcluded && !isinf(largest)) units += Units(Exp(l - largest));
    keys[j] = id < row.usable ? RankKey(l, static_cast<uint32_t>(id)) : 0;
  }
  units = BlockAdd(units, parts);
  if (threadIdx.x == 0) record.exp_units = units;
  uint64_t last = ~uint64_t{0};
  for (int i = 0; i < Alternatives(row); ++i) {
    uint64_t best = 0;
#pragma unroll
    for (int j = 0; j < kSliceValues; ++j) best = keys[j] < last && keys[j] > best ? keys[j] : best;
    last = BlockMax(best, parts);
    if (threadIdx.x == 0) record.top[i] = last;
  }
}

// The row's log probabilities, `token` being its choice. For a whole block.
__device__ inline void WriteLogprobs(const AcceptArgs& args, const Row& row, int32_t token,
                                     uint64_t* parts) {
  const size_t out = row.output();
  const int count = Alternatives(row);
  if (threadIdx.x == 0) args.logprobs.data[out] = 0.0f;
  if (count < 0) return;
  const float largest = RankValue(RowMax(row, &SliceRecord::raw_largest, parts));
  uint64_t units = 0;
  for (int i = static_cast<int>(threadIdx.x); i < row.slices; i += kRowThreads)
    units += row.records[i].exp_units;
  units = BlockAdd(units, parts);
  const float log_sum = isinf(largest) ? largest : LogSum(largest, units);
  if (threadIdx.x == 0) args.logprobs.data[out] = Logprob(row.logits[token], log_sum);
  uint64_t last = ~uint64_t{0};
  for (int i = 0; i < count; ++i) {
    uint64_t best = 0;
    for (int j = static_cast<int>(threadIdx.x); j < row.slices * count; j += kRowThreads) {
      const uint64_t key = row.records[j / count].top[j % count];
      best = key < last && key > best ? key : best;
    }
    last = BlockMax(best, parts);
    if (threadIdx.x != 0) continue;
    args.top_ids.data[out * kMaxTopLogprobs + i] = last == 0 ? -1 : RankId(last);
    args.top_values.data[out * kMaxTopLogprobs + i] =
        last == 0 ? kExcluded : Logprob(RankValue(last), log_sum);
  }
}

}  // namespace tandem
