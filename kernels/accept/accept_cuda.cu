#include <algorithm>
#include <cstdint>

#include "kernels/accept/accept_cuda.h"
#include "kernels/accept/adjust_cuda.cuh"
#include "kernels/accept/cut_cuda.cuh"
#include "kernels/accept/logprob_cuda.cuh"
#include "kernels/accept/row_cuda.cuh"
#include "kernels/accept/scratch.h"
#include "kernels/accept/weigh_cuda.cuh"
#include "kernels/launch_cuda.cuh"

// The choices of all rows are made side by side, each as if the drafts before it were accepted;
// then the lanes' accepted runs are found. This file is compiled without contraction of products
// and sums: its floats have the bits of the CPU's.

namespace tandem {
namespace {

// One block per slice and row: adjusted logits and the largest of them, which is the choice at
// temperature 0.
__global__ void __launch_bounds__(kSliceThreads) AdjustKernel(AcceptArgs args, int first) {
  BeginOverlapped();
  __shared__ float l[kAcceptSlice];
  __shared__ uint64_t parts[kWarp + 1];
  const Row row = FindRow(args, first);
  if (row.lane == nullptr) return;
  const uint64_t largest = LargestOfSlice(args, row, l, parts);
  SliceRecord& record = row.records[blockIdx.x];
  if (threadIdx.x == 0) record.largest = record.choice = largest;
  if (WantsMargin(args, row)) {
    const uint64_t next = NextOfSlice(row, l, largest, parts);
    if (threadIdx.x == 0) record.next = next;
  }
  if (row.sampling().top_logprobs < 0) return;
  const uint64_t raw_largest = RawLargest(args, row, parts);
  if (threadIdx.x == 0) record.raw_largest = raw_largest;
}

// One block per slice and row, now that the row's largest logits are known.
__global__ void __launch_bounds__(kSliceThreads) WeighKernel(AcceptArgs args, int first) {
  BeginOverlapped();
  __shared__ SliceSums sums;
  __shared__ uint64_t parts[kWarp + 1];
  __shared__ float start;
  const Row row = FindRow(args, first);
  if (row.lane == nullptr) return;
  if (row.sampling().top_logprobs >= 0) SliceLogprobs(args, row, parts);
  if (row.sampling().temperature != 0.0f) WeighSlice(row, &sums, parts, &start);
}

// One block per row: its token and log probabilities.
__global__ void __launch_bounds__(kRowThreads, 1) ChooseKernel(AcceptArgs args, int first) {
  BeginOverlapped();
  __shared__ CutMemory memory;
  const Row row = FindRow(args, first);
  if (row.lane == nullptr) return;
  const Sampling& s = row.sampling();
  uint64_t choice = RowMax(row, &SliceRecord::choice, memory.parts);
  // WeighKernel leaves the largest logit as the choice where the cuts need a ranking.
  if (s.temperature != 0.0f && HasRankCuts(s, row.usable) && RankValue(choice) > kExcluded)
    choice = ChooseRanked(row, choice, &memory);
  const int32_t token = RankId(choice);
  if (threadIdx.x == 0) args.tokens.data[row.output()] = token;
  WriteLogprobs(args, row, token, memory.parts);
  WriteMargin(args, row, choice, memory.parts);
}

// Tokens that the lane emits: its drafts while they equal the choices, or as many as are simulated,
// and one choice more. `choices` is [lane.rows].
__device__ int EmittedOf(const AcceptArgs& args, const AcceptLane& lane, const int32_t* choices) {
  const int32_t* consumed = args.row_tokens.data + lane.first_row;
  int emitted = lane.rows > 0 ? 1 : 0;
  const auto kept = [&] {
    if (lane.simulated < 0) return consumed[emitted] == choices[emitted - 1];
    return emitted <= lane.simulated && consumed[emitted] >= 0;
  };
  while (emitted < lane.rows && kept()) ++emitted;
  return emitted;
}

// Updates counts and seen bits by the tokens s_0 .. s_a of one lane. For a whole block; the blocks
// of a lane share the ids.
__device__ void CommitTokens(const AcceptArgs& args, const AcceptLane& lane, const int32_t* tokens,
                             int emitted) {
  const float decay = lane.sampling.penalty_decay;
  const size_t slot = static_cast<size_t>(lane.slot) * args.vocab;
  float* counts = args.counts.data + slot;
  const int thread = static_cast<int>(threadIdx.x);
  if (decay != 1.0f) {
    const int begin = static_cast<int>(blockIdx.x) * kAcceptSlice;
    const int end = min(begin + kAcceptSlice, args.vocab);
#pragma unroll 4
    for (int id = begin + thread; id < end; id += kSliceThreads) {
      float count = counts[id];
      for (int j = 0; j < emitted; ++j) count = NextCount(count, decay, tokens[j] == id);
      counts[id] = count;
    }
  }
  if (blockIdx.x > 0 || thread >= emitted) return;
  const int32_t token = tokens[thread];
  for (int j = 0; j < thread; ++j) {
    if (tokens[j] == token) return;  // an earlier thread has it
  }
  args.seen.data[slot + token] |= kSeenInReply;
  if (decay != 1.0f) return;
  float count = counts[token];
  for (int j = thread; j < emitted; ++j) count = NextCount(count, decay, tokens[j] == token);
  counts[token] = count;
}

// One block per slice and lane: what was accepted, counts and seen bits.
__global__ void __launch_bounds__(kSliceThreads) CommitKernel(AcceptArgs args) {
  BeginOverlapped();
  const AcceptLane& lane = args.lanes.data[blockIdx.y];
  const int32_t* choices = args.tokens.data + static_cast<size_t>(blockIdx.y) * kDepths;
  const int emitted = EmittedOf(args, lane, choices);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    args.accepted.data[lane.slot] = max(emitted - 1, 0);
    args.emitted.data[blockIdx.y] = emitted;
  }
  CommitTokens(args, lane, choices, emitted);
}

}  // namespace

void AcceptCuda(const AcceptArgs& args, const DeviceCuda& device) {
  const int rows = static_cast<int>(args.logits.size / args.vocab);
  const int at_once = ChoicesAtOnce(args);
  const unsigned slices = CeilDiv(args.vocab, kAcceptSlice);
  for (int first = 0; first < rows; first += at_once) {
    const unsigned count = std::min(at_once, rows - first);
    const dim3 grid(slices, count);
    LaunchOverlapped(device, AdjustKernel, grid, kSliceThreads, 0, args, first);
    LaunchOverlapped(device, WeighKernel, grid, kSliceThreads, 0, args, first);
    LaunchOverlapped(device, ChooseKernel, dim3(1, count), kRowThreads, 0, args, first);
  }
  LaunchOverlapped(device, CommitKernel, dim3(slices, static_cast<unsigned>(args.lanes.size)),
                   kSliceThreads, 0, args);
}

}  // namespace tandem
