#pragma once

#include <cstdint>

#include "kernels/accept/penalty.h"
#include "kernels/accept/row_cuda.cuh"

namespace tandem {

__device__ inline bool BansEndIds(const Row& row) {
  return row.lane->generated + row.depth < row.sampling().min_tokens;
}

// Whether bias, bans and penalties leave the logits as they are.
__device__ inline bool LeavesLogits(const Row& row) {
  return row.lane->bias_ids.size == 0 && !HasPenalties(row.sampling()) &&
         !(BansEndIds(row) && row.lane->end_ids.size > 0);
}

// Logit l of `id` with penalties: counts and seen bits as if the drafts before this row were
// accepted.
__device__ inline float PenalizedLogit(const AcceptArgs& args, const Row& row, int id, float l) {
  const size_t at = static_cast<size_t>(row.lane->slot) * args.vocab + id;
  uint8_t seen = args.seen.data[at];
  float count = args.counts.data[at];
  const int32_t* drafts = args.row_tokens.data + row.lane->first_row + 1;
  for (int j = 0; j < row.depth; ++j) {
    const bool chosen = drafts[j] == id;
    count = NextCount(count, row.sampling().penalty_decay, chosen);
    if (chosen) seen |= kSeenInReply;
  }
  return Penalize(row.sampling(), l, seen, count);
}

// Bias, penalties and bans of the slice from `begin` on, in place. For a whole block; `l` is
// [kAcceptSlice] shared, and thread t has written, and reads again, t, t + kSliceThreads, ...
__device__ inline void AdjustSlice(const AcceptArgs& args, const Row& row, int begin, float* l) {
  const int thread = static_cast<int>(threadIdx.x);
  const AcceptLane& lane = *row.lane;
  __syncthreads();
  for (size_t i = thread; i < lane.bias_ids.size; i += kSliceThreads) {
    const int at = lane.bias_ids.data[i] - begin;
    if (at >= 0 && at < kAcceptSlice && lane.bias_ids.data[i] < row.usable)
      l[at] += lane.bias_values.data[i];
  }
  __syncthreads();
  if (HasPenalties(row.sampling())) {
    for (int at = thread; at < kAcceptSlice && begin + at < row.usable; at += kSliceThreads)
      l[at] = PenalizedLogit(args, row, begin + at, l[at]);
  }
  __syncthreads();
  if (BansEndIds(row)) {
    for (size_t i = thread; i < lane.end_ids.size; i += kSliceThreads) {
      const int at = lane.end_ids.data[i] - begin;
      if (at >= 0 && at < kAcceptSlice) l[at] = kExcluded;
    }
  }
  __syncthreads();
}

// The rank key of the largest raw logit of the block's slice, over all V ids.
__device__ inline uint64_t RawLargest(const AcceptArgs& args, const Row& row, uint64_t* parts) {
  const int first = static_cast<int>(blockIdx.x) * kAcceptSlice + static_cast<int>(threadIdx.x);
  uint64_t best = 0;
#pragma unroll
  for (int j = 0; j < kSliceValues; ++j) {
    const int id = first + j * kSliceThreads;
    const float l = id < args.vocab ? NanToLowest(row.logits[id]) : kExcluded;
    const uint64_t key = RankKey(l, static_cast<uint32_t>(id));
    best = key > best ? key : best;
  }
  return BlockMax(best, parts);
}

__device__ inline bool WantsMargin(const AcceptArgs& args, const Row& row) {
  return args.margins.size > 0 && row.sampling().temperature == 0.0f;
}

// The rank key of the largest adjusted logit of the block's slice, 0 without usable ids. Leaves the
// adjusted logits in row.values unless the row's temperature is 0, and in `l` [kAcceptSlice]
// shared, -inf where none is usable.
__device__ inline uint64_t LargestOfSlice(const AcceptArgs& args, const Row& row, float* l,
                                          uint64_t* parts) {
  const int begin = static_cast<int>(blockIdx.x) * kAcceptSlice;
#pragma unroll
  for (int j = 0; j < kSliceValues; ++j) {
    const int at = static_cast<int>(threadIdx.x) + j * kSliceThreads;
    l[at] = begin + at < row.usable ? row.logits[begin + at] : kExcluded;
  }
  const bool greedy = row.sampling().temperature == 0.0f;
  const bool raw = greedy && LeavesLogits(row);
  if (!raw) AdjustSlice(args, row, begin, l);
  uint64_t best = 0;
#pragma unroll
  for (int j = 0; j < kSliceValues; ++j) {
    const int at = static_cast<int>(threadIdx.x) + j * kSliceThreads;
    const bool usable = begin + at < row.usable;
    const float value = raw || !usable ? NanToLowest(l[at]) : Finite(l[at]);
    l[at] = value;
    if (!greedy) row.values[begin + at] = value;
    const uint64_t key = usable ? RankKey(value, static_cast<uint32_t>(begin + at)) : 0;
    best = key > best ? key : best;
  }
  return BlockMax(best, parts);
}

// The rank key of the largest adjusted logit of the block's slice but `largest`; 0 without one. `l`
// as LargestOfSlice left it.
__device__ inline uint64_t NextOfSlice(const Row& row, const float* l, uint64_t largest,
                                       uint64_t* parts) {
  const int begin = static_cast<int>(blockIdx.x) * kAcceptSlice;
  uint64_t best = 0;
  for (int at = static_cast<int>(threadIdx.x); at < kAcceptSlice && begin + at < row.usable;
       at += kSliceThreads) {
    const uint64_t key = RankKey(l[at], static_cast<uint32_t>(begin + at));
    best = key > best && key != largest ? key : best;
  }
  return BlockMax(best, parts);
}

// How far the row's greedy choice, whose rank key is `choice`, lies above the next largest logit;
// infinite without one, and where the choice is not greedy. For a whole block.
__device__ inline void WriteMargin(const AcceptArgs& args, const Row& row, uint64_t choice,
                                   uint64_t* parts) {
  if (args.margins.size == 0) return;
  float margin = -kExcluded;
  if (WantsMargin(args, row)) {
    uint64_t next = 0;
    for (int i = static_cast<int>(threadIdx.x); i < row.slices; i += static_cast<int>(blockDim.x)) {
      const SliceRecord& record = row.records[i];
      next = max(next, record.largest == choice ? record.next : record.largest);
    }
    next = BlockMax(next, parts);
    if (next != 0) margin = MarginOf(RankValue(choice), RankValue(next));
  }
  if (threadIdx.x == 0) args.margins.data[row.output()] = margin;
}

}  // namespace tandem
