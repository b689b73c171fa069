#pragma once

#include <cstdint>

#include "kernels/accept/accept.h"
#include "kernels/accept/rank_key.h"
#include "kernels/launch_cuda.cuh"

namespace tandem {

// A row is one choice. Its ids are cut into slices of kAcceptSlice, one block each.
inline constexpr int kSliceThreads = 256;
inline constexpr int kSliceValues = kAcceptSlice / kSliceThreads;
inline constexpr int kRowThreads = 512;
inline constexpr int kDepths = kMaxDrafts + 1;

// Ranges of t = (l - largest) / T <= 0 that the search for a cut starts from, in descending order.
inline constexpr int kBuckets = 512;

__device__ inline int BucketOf(float t) {
  // 64 buckets for each doubling of 1 - t; what is below -255 shares the last one.
  const uint32_t bucket = (__float_as_uint(1.0f - t) - 0x3F800000u) >> 17;
  return static_cast<int>(min(bucket, static_cast<uint32_t>(kBuckets - 1)));
}

// What the values of a slice add to each bucket.
struct SliceBuckets {
  uint64_t units[kBuckets];  // of their weights; 0 without top_p
  uint32_t counts[kBuckets];
};
static_assert(sizeof(SliceBuckets) <= kAcceptSlice * sizeof(float));

// What a slice hands on. Rank keys; 0 stands for none.
struct alignas(16) SliceRecord {
  uint64_t largest;               // of the logits after bans, bias and penalties
  uint64_t next;                  // the second largest, where a margin is asked for
  uint64_t choice;                // of the scores, where no ranking is needed
  uint64_t raw_largest;           // of all V raw logits, where log probabilities are asked for
  uint64_t exp_units;             // Units of e^(raw - largest raw of the row)
  uint64_t top[kMaxTopLogprobs];  // the largest raw logits of usable ids, descending
};
static_assert(AcceptScratchFloats(1) * sizeof(float) ==
              2 * kAcceptSlice * sizeof(float) + sizeof(SliceRecord));

struct Row {
  const AcceptLane* lane = nullptr;  // null: the row belongs to no lane
  int lane_index = 0;
  int depth = 0;   // which of the lane's rows
  int usable = 0;  // ids that can be chosen
  int slices = 0;
  const float* logits = nullptr;   // [V]
  float* values = nullptr;         // [slices, kAcceptSlice]: l, then t; -inf beyond `usable`
  uint32_t* ids = nullptr;         // [slices, kAcceptSlice], in the memory of the buckets
  SliceRecord* records = nullptr;  // [slices]

  __device__ const Sampling& sampling() const { return lane->sampling; }
  __device__ SliceBuckets& BucketsOf(int slice) const {
    return *reinterpret_cast<SliceBuckets*>(ids + static_cast<size_t>(slice) * kAcceptSlice);
  }
  // Where the outputs of this row lie, in units of one choice.
  __device__ size_t output() const { return static_cast<size_t>(lane_index) * kDepths + depth; }
};

// The row `first` + blockIdx.y of the logits, with the memory of choice blockIdx.y. For a whole
// block.
__device__ inline Row FindRow(const AcceptArgs& args, int first) {
  __shared__ int found;
  const int q = first + static_cast<int>(blockIdx.y);
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(args.lanes.size);
       i += static_cast<int>(blockDim.x)) {
    const AcceptLane& lane = args.lanes.data[i];
    if (lane.first_row <= q && q - lane.first_row < lane.rows) found = i;
  }
  __syncthreads();
  if (found < 0) return {};
  const int slices = CeilDiv(args.vocab, kAcceptSlice);
  const size_t plane = static_cast<size_t>(slices) * kAcceptSlice;
  const AcceptLane* lane = args.lanes.data + found;
  float* memory = args.scratch.data + blockIdx.y * AcceptScratchFloats(args.vocab);
  return {.lane = lane,
          .lane_index = found,
          .depth = q - lane->first_row,
          .usable = min(args.vocab, args.usable_vocab),
          .slices = slices,
          .logits = args.logits.data + static_cast<size_t>(q) * args.vocab,
          .values = memory,
          .ids = reinterpret_cast<uint32_t*>(memory + plane),
          .records = reinterpret_cast<SliceRecord*>(memory + 2 * plane)};
}

// The fold of one value per thread, in every thread; 0 must be neutral and the order must not
// matter. `parts` is [33] shared; the block may not use it before its next barrier.
template <class Fold>
__device__ inline uint64_t BlockFold(uint64_t value, uint64_t* parts, Fold fold) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int step = kWarp / 2; step > 0; step /= 2)
    value = fold(value, __shfl_xor_sync(kAllLanes, value, step));
  __syncthreads();
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  if (warp == 0) {
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    uint64_t folded = lane < warps ? parts[lane] : 0;
    for (int step = kWarp / 2; step > 0; step /= 2)
      folded = fold(folded, __shfl_xor_sync(kAllLanes, folded, step));
    if (lane == 0) parts[kWarp] = folded;
  }
  __syncthreads();
  return parts[kWarp];
}

__device__ inline uint64_t BlockMax(uint64_t value, uint64_t* parts) {
  return BlockFold(value, parts, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}

__device__ inline uint64_t BlockAdd(uint64_t value, uint64_t* parts) {
  return BlockFold(value, parts, [](uint64_t a, uint64_t b) { return a + b; });
}

// The largest rank key that the slices of a row left in `member`.
__device__ inline uint64_t RowMax(const Row& row, uint64_t SliceRecord::*member, uint64_t* parts) {
  uint64_t best = 0;
  for (int i = static_cast<int>(threadIdx.x); i < row.slices; i += static_cast<int>(blockDim.x)) {
    const uint64_t key = row.records[i].*member;
    best = key > best ? key : best;
  }
  return BlockMax(best, parts);
}

}  // namespace tandem
