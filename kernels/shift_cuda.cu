#include <algorithm>

#include "kernels/lanes.h"
#include "kernels/launch_cuda.cuh"
#include "kernels/row_norm_cuda.cuh"
#include "kernels/shift_cuda.h"

namespace tandem {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kChunk = 16;       // rows of a block
constexpr int kMostSlice = 256;  // vectors of four channels of a block
static_assert(kChunk >= kMaxDrafts + 1,
              "a block's moments hold a lane's last certain row and drafts");

// A lane as its rows' blocks see it; no rows where nothing belongs to the block.
struct ShiftLane {
  int first;
  int end;
  int slot;
  int provisional;
};

// The lane of `row` into shared memory; the block calls it together.
__device__ void FindLane(const Lanes& lanes, int row, ShiftLane* found) {
  if (threadIdx.x == 0) *found = {};
  __syncthreads();
  for (int b = threadIdx.x; b < lanes.count; b += kThreads) {
    const int first = lanes.offsets[b], end = lanes.offsets[b + 1];
    if (first <= row && row < end) *found = {first, end, lanes.slots[b], lanes.provisional[b]};
  }
  __syncthreads();
}

// Vectors [begin, begin + count) of every row.
struct Slice {
  int begin;
  int count;
};

__device__ float4 NormedAt(const ShiftMix& args, int row, int vector, const RowMoments& moments) {
  const size_t at = static_cast<size_t>(row) * args.width + 4 * vector;
  return Normed4(Load4(args.x.data + at), moments, LoadWeight4(args.ln_weight.data + 4 * vector),
                 LoadWeight4(args.ln_bias.data + 4 * vector));
}

// The slice of the row before the lane's first one into `before` [slice.count].
__device__ void LoadBefore(const ShiftMix& args, const ShiftLane& lane, const Slice& slice,
                           float4* before) {
  const int accepted = ClampAccepted(args.lanes.accepted[lane.slot]);
  const float* from = accepted > 0 ? args.shift.log + lane.slot * args.shift.log_stride +
                                         static_cast<size_t>(accepted - 1) * args.width
                                   : args.shift.committed + lane.slot * args.shift.committed_stride;
  for (int i = threadIdx.x; i < slice.count; i += kThreads) {
    before[i] = reinterpret_cast<const float4*>(from)[slice.begin + i];
  }
}

// Brings what the slice needs besides the rows to the L2 cache.
__device__ void PrefetchSlice(const ShiftMix& args, const ShiftLane& lane, const Slice& slice) {
  constexpr int kLine = 8;  // vectors of a cache line
  const int lines = CeilDiv(slice.count, kLine), i = static_cast<int>(threadIdx.x);
  if (i >= (args.mixes + 3) * lines) return;
  const size_t at = 4 * static_cast<size_t>(slice.begin + i % lines * kLine);
  const int which = i / lines;
  if (which < args.mixes) return PrefetchLine(args.mix.data + which * args.width + at);
  const float* rest[] = {args.ln_weight.data, args.ln_bias.data,
                         args.shift.committed + lane.slot * args.shift.committed_stride};
  PrefetchLine((which == args.mixes ? rest[0] : which == args.mixes + 1 ? rest[1] : rest[2]) + at);
}

// The mixes of one vector of one row.
__device__ void MixVector(const ShiftMix& args, int row, int vector, const float4& previous,
                          const float4& h) {
  const size_t at = static_cast<size_t>(row) * args.width + 4 * vector;
  const size_t plane = static_cast<size_t>(args.rows) * args.width;
  const float4 delta =
      make_float4(previous.x - h.x, previous.y - h.y, previous.z - h.z, previous.w - h.w);
#pragma unroll 6
  for (int n = 0; n < args.mixes; ++n) {
    const float4 mix =
        LoadWeight4(args.mix.data + static_cast<size_t>(n) * args.width + 4 * vector);
    Store4(args.mixed.data + n * plane + at,
           make_float4(__fmaf_rn(delta.x, mix.x, h.x), __fmaf_rn(delta.y, mix.y, h.y),
                       __fmaf_rn(delta.z, mix.z, h.z), __fmaf_rn(delta.w, mix.w, h.w)));
  }
}

// Rows [row, row + count) of a slice. moments [count + 1] start at the row before `row`, or where
// the lane starts with `row`, at `row` itself; `before` stands before that one.
__device__ void MixRows(const ShiftMix& args, int row, int count, bool leads, const Slice& slice,
                        const RowMoments* moments, const float4* before) {
  const RowMoments* own = moments + (leads ? 0 : 1);
  for (int i = threadIdx.x / kWarp; i < count; i += kWarps) {
    for (int at = threadIdx.x % kWarp; at < slice.count; at += kWarp) {
      const int vector = slice.begin + at;
      const float4 previous =
          leads && i == 0 ? before[at] : NormedAt(args, row + i - 1, vector, own[i - 1]);
      MixVector(args, row + i, vector, previous, NormedAt(args, row + i, vector, own[i]));
    }
  }
}

// The slice of the last certain row, `tail`, becomes the committed one and those after it the log.
// moments [provisional + 1] start at `tail`.
__device__ void CommitRows(const ShiftMix& args, const ShiftLane& lane, int tail,
                           const Slice& slice, const RowMoments* moments) {
  float* const committed = args.shift.committed + lane.slot * args.shift.committed_stride;
  float* const log = args.shift.log + lane.slot * args.shift.log_stride;
  for (int i = threadIdx.x / kWarp; i <= lane.provisional; i += kWarps) {
    float* const to = i == 0 ? committed : log + static_cast<size_t>(i - 1) * args.width;
    for (int at = threadIdx.x % kWarp; at < slice.count; at += kWarp) {
      const int vector = slice.begin + at;
      Store4(to + 4 * vector, NormedAt(args, tail + i, vector, moments[i]));
    }
  }
}

// A block works on `slice_vectors` vectors of kChunk rows of a lane, counted from the lane's first
// row; blocks of the rows between leave at once. Each computes the moments that it needs. The block
// of a lane's first rows alone reads the slot's state and afterwards writes it, so no block reads
// what another one writes.
__global__ void __launch_bounds__(kThreads) ShiftMixKernel(const ShiftMix args, int slice_vectors) {
  __shared__ ShiftLane lane;
  __shared__ RowMoments moments[kChunk + 1];
  __shared__ float parts[2 * kWarps];
  __shared__ float4 before[kMostSlice];
  LetNextStart();
  const int row = static_cast<int>(blockIdx.x);
  FindLane(args.lanes, row, &lane);
  if (row >= lane.end || (row - lane.first) % kChunk != 0) return;
  const bool leads = row == lane.first;
  const int count = min(kChunk, lane.end - row);
  const int begin = static_cast<int>(blockIdx.y) * slice_vectors;
  const Slice slice = {begin, min(slice_vectors, args.width / 4 - begin)};
  PrefetchSlice(args, lane, slice);
  WaitForEarlier();
  if (leads) LoadBefore(args, lane, slice, before);
  const int base = leads ? row : row - 1;
  // Its last barrier also ends the writing of `before`.
  RowMomentsOf(args.x.data + static_cast<size_t>(base) * args.width, args.width, row + count - base,
               moments, parts);
  MixRows(args, row, count, leads, slice, moments, before);
  if (!leads) return;
  const int tail = lane.end - 1 - lane.provisional;
  if (row + count == lane.end) {
    CommitRows(args, lane, tail, slice, moments + (tail - row));
    return;
  }
  // A long lane ends in other blocks' rows. No thread writes `moments` before the barriers of the
  // sums, so MixRows has finished reading them.
  RowMomentsOf(args.x.data + static_cast<size_t>(tail) * args.width, args.width,
               lane.provisional + 1, moments, parts);
  CommitRows(args, lane, tail, slice, moments);
}

// One slot of `slots` [n] per block; accepted [S].
__global__ void ReplayShiftKernel(const ShiftState shift, View<const int32_t> slots,
                                  const int32_t* accepted, int width) {
  const int slot = slots.data[blockIdx.x];
  const int count = ClampAccepted(accepted[slot]);
  if (count == 0) return;
  const float* from = shift.log + slot * shift.log_stride + static_cast<size_t>(count - 1) * width;
  float* const to = shift.committed + slot * shift.committed_stride;
  for (int at = 4 * static_cast<int>(threadIdx.x); at < width; at += 4 * kThreads) {
    Store4(to + at, Load4(from + at));
  }
}

}  // namespace

void ShiftMixCuda(const ShiftMix& args, const DeviceCuda& device) {
  // Few rows are cut into many slices to use more of the device; many rows into few, because every
  // slice computes its rows' moments again.
  const int slice = std::min(kMostSlice, kWarp * CeilDiv(args.rows, 4));
  const dim3 grid(args.rows, CeilDiv(args.width / 4, std::max(slice, 1)));
  LaunchOverlapped(device, ShiftMixKernel, grid, dim3(kThreads), 0, args, slice);
}

void ReplayShiftCuda(const ShiftState& shift, View<const int32_t> slots, const int32_t* accepted,
                     int width, const DeviceCuda& device) {
  Launch(device, ReplayShiftKernel, dim3(static_cast<unsigned>(slots.size)), dim3(kThreads), 0,
         shift, slots, accepted, width);
}

}  // namespace tandem
