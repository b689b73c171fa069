#pragma once

#include <cstdint>

#include "kernels/linear/copy_async_cuda.cuh"
#include "kernels/linear/epilogue_cuda.cuh"
#include "kernels/linear/expand_cuda.cuh"
#include "kernels/linear/linear_cuda.h"

// y = x Wᵀ on tensor cores: outputs are the 16-wide side of an mma, rows its 8-wide side. The order
// of a sum depends on K and the format only: the steps of K are cut into 8 slices; a slice is one
// chain of mma over its inputs in ascending order, each the high pieces of the activations before
// the low ones; the slices are added in ascending order. (Int6: a chain per group of 64, times its
// scale, added up by fused multiply-adds.) Who computes what is free. Few rows: a warp per slice,
// to have many loads under way; many rows: every warp computes all slices of its own outputs and
// rows, to use what it loads more often.

namespace tandem {

inline constexpr int kDenseWarps = 8;
inline constexpr int kSlices = 8;
inline constexpr int kMmaRows = 8;

// How a block is cut: a warp has kTiles tiles of outputs and kColumns groups of 8 rows; a team of
// kTeamTiles x kTeamColumns warps shares the memory of its loads and computes whole slices.
template <int kWarpTiles, int kWarpColumns, int kTeamTiles, int kTeamColumns>
struct DenseCut {
  static constexpr int kTiles = kWarpTiles;
  static constexpr int kColumns = kWarpColumns;
  static constexpr int kTeamWarps = kTeamTiles * kTeamColumns;
  static constexpr int kTeamThreads = kTeamWarps * kWarp;
  static constexpr int kTeams = kDenseWarps / kTeamWarps;
  static constexpr int kRowWarps = kTeamColumns;
  static constexpr int kBlockTiles = kTeamTiles * kWarpTiles;
  static constexpr int kBlockOutputs = kBlockTiles * kTileOutputs;
  static constexpr int kBlockRows = kTeamColumns * kWarpColumns * kMmaRows;
  // Outputs of a row of partial sums; the padding spreads an mma's sums over the banks.
  static constexpr int kPartialStride = kBlockOutputs + 4;
  static constexpr bool kWholeSum = kTeams == 1;
  static_assert(kTeams == 1 || kTeams == kSlices);
};

// One linear op of a launch.
struct DenseJob {
  const uint8_t* weight;  // [tiles][steps][kBytes], then [tiles * 16] scales of fp32
  const float* x;         // [M, x_stride]
  float* y;               // [M, y_stride]
  size_t x_stride;
  size_t y_stride;
  int outputs;      // N
  int inputs;       // K
  int first_block;  // of blockIdx.y
  WeightFormat format;
  Epilogue epilogue;
  bool aligned;  // every row of x is 16-byte aligned
};

struct DenseJobs {
  DenseJob jobs[kMostLinearJobs];
  int count;
  int rows;         // M
  int stages;       // of the loads in shared memory, 2 ... 4
  int stage_bytes;  // the largest of any job's format
};

__device__ inline void WaitForStage(int stages) {
  if (stages == 2) {
    CopyAsyncWait<0>();
  } else if (stages == 3) {
    CopyAsyncWait<1>();
  } else {
    CopyAsyncWait<2>();
  }
}

// The loads and sums of one block for one job.
template <WeightFormat kFormat, class Cut>
class DenseBlock final {
 public:
  __device__ DenseBlock(const DenseJob& job, int first_tile, int first_row, int rows)
      : job_(job),
        steps_(CeilDiv(job.inputs, Step::kInputs)),
        tiles_(CeilDiv(job.outputs, kTileOutputs)),
        first_tile_(first_tile),
        first_row_(first_row),
        columns_(min(rows - first_row, Cut::kBlockRows)),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        thread_(static_cast<int>(threadIdx.x) % Cut::kTeamThreads),
        tile_warp_(thread_ / kWarp / Cut::kRowWarps),
        row_warp_(thread_ / kWarp % Cut::kRowWarps) {}

  // Sums of the steps of slices [first, end) into sums(); every thread of the team calls it.
  __device__ void Run(uint8_t* ring, int stages, int stage_bytes, int first, int end) {
    const int first_step = SliceStep(first), end_step = SliceStep(end);
    int slice_end = SliceStep(first + 1);
    for (int s = 0; s < stages - 1; ++s) {
      if (first_step + s < end_step) Fill(ring + s * stage_bytes, first_step + s);
      CopyAsyncCommit();
    }
    int slot = 0, fill_slot = stages - 1;
    for (int step = first_step; step < end_step; ++step) {
      if constexpr (Cut::kWholeSum) {
        for (; step == slice_end; slice_end = SliceStep(++first + 1)) CloseSlice();
      }
      WaitForStage(stages);
      // The stage is there for all, and everybody is done with the one that is filled next.
      TeamSync();
      const int ahead = step + stages - 1;
      if (ahead < end_step) Fill(ring + fill_slot * stage_bytes, ahead);
      CopyAsyncCommit();
      Multiply(ring + slot * stage_bytes);
      slot = slot + 1 == stages ? 0 : slot + 1;
      fill_slot = fill_slot + 1 == stages ? 0 : fill_slot + 1;
    }
    if constexpr (Cut::kWholeSum) CloseSlice();
  }

  // The sums of one slice beside those of the others: [rows][Cut::kPartialStride].
  __device__ void StorePartial(float* partial) const {
#pragma unroll
    for (int t = 0; t < Cut::kTiles; ++t) {
#pragma unroll
      for (int c = 0; c < Cut::kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          partial[RowOf(c, i) * Cut::kPartialStride + OutputOf(t, i)] = sum_[t][c][i];
        }
      }
    }
  }

  // Adds the partial sums [8][rows][Cut::kPartialStride] and writes y; every thread of the block.
  __device__ void FinishPartials(const float* partials) const {
    constexpr int kRowSize = Cut::kPartialStride, kSliceSize = Cut::kBlockRows * kRowSize;
    for (int i = threadIdx.x; i < columns_ * Cut::kBlockOutputs; i += kDenseWarps * kWarp) {
      const int output = i % Cut::kBlockOutputs, row = i / Cut::kBlockOutputs;
      const float* part = partials + row * kRowSize + output;
      float sum = 0.0f;
#pragma unroll
      for (int s = 0; s < kSlices; ++s) sum += part[s * kSliceSize];
      Finish(output, row, sum);
    }
  }

  // Writes y from the whole sums of this thread.
  __device__ void FinishWhole() const {
#pragma unroll
    for (int t = 0; t < Cut::kTiles; ++t) {
#pragma unroll
      for (int c = 0; c < Cut::kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (RowOf(c, i) < columns_) Finish(OutputOf(t, i), RowOf(c, i), total_[t][c][i]);
        }
      }
    }
  }

 private:
  using Step = DenseStep<kFormat>;

  __device__ int SliceStep(int slice) const { return steps_ * slice / kSlices; }
  __device__ int OutputOf(int tile, int i) const {
    return (tile_warp_ * Cut::kTiles + tile) * kTileOutputs + lane_ / 4 + i / 2 * 8;
  }
  __device__ int RowOf(int column, int i) const {
    return (row_warp_ * Cut::kColumns + column) * kMmaRows + lane_ % 4 * 2 + i % 2;
  }

  __device__ static void TeamSync() {
    if constexpr (Cut::kTeamWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  // Starts the loads of one step: the weights [tiles][kBytes], then the activations
  // [16 inputs][row][16 inputs] of fp32, zeros from K on. Tiles beyond the last are the last again.
  __device__ void Fill(uint8_t* stage, int step) const {
#pragma unroll
    for (int t = 0; t < Cut::kBlockTiles; ++t) {
      const size_t tile = static_cast<size_t>(min(first_tile_ + t, tiles_ - 1));
      const uint8_t* from = job_.weight + (tile * steps_ + step) * Step::kBytes;
      for (int i = thread_ * 16; i < Step::kBytes; i += Cut::kTeamThreads * 16)
        CopyAsync16(stage + t * Step::kBytes + i, from + i);
    }
    constexpr int kQuads = Step::kInputs / 4;
    uint8_t* to = stage + Cut::kBlockTiles * Step::kBytes;
    for (int i = thread_; i < columns_ * kQuads; i += Cut::kTeamThreads) {
      const int quad = i % kQuads, row = i / kQuads;
      FillQuad(to + ((quad / 4 * columns_ + row) * 4 + quad % 4) * 16, row,
               step * Step::kInputs + quad * 4);
    }
  }
  __device__ void FillQuad(uint8_t* to, int row, int k) const {
    const float* x = job_.x + (first_row_ + row) * job_.x_stride;
    const int present = min(max(job_.inputs - k, 0), 4);
    const float* from = x + (present > 0 ? k : 0);
    if (job_.aligned) return CopyAsyncPart(to, from, present * 4);
    for (int i = 0; i < 4; ++i) CopyAsyncWord(to + i * 4, i < present ? from + i : x, i < present);
  }

  __device__ void Multiply(const uint8_t* stage) {
    const uint8_t* weight = stage + tile_warp_ * Cut::kTiles * Step::kBytes;
    const uint8_t* x = stage + Cut::kBlockTiles * Step::kBytes;
    if constexpr (kFormat == WeightFormat::kInt6) {
      float part[Cut::kTiles][Cut::kColumns][4] = {};
      MultiplyInto(part, weight, x);
#pragma unroll
      for (int t = 0; t < Cut::kTiles; ++t) {
        const float2 scale = LoadInt6Scales(weight + t * Step::kBytes, lane_);
#pragma unroll
        for (int c = 0; c < Cut::kColumns; ++c) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sum_[t][c][i] = fmaf(part[t][c][i], i < 2 ? scale.x : scale.y, sum_[t][c][i]);
          }
        }
      }
    } else {
      MultiplyInto(sum_, weight, x);
    }
  }
  __device__ void MultiplyInto(float (&sum)[Cut::kTiles][Cut::kColumns][4], const uint8_t* weight,
                               const uint8_t* x) const {
#pragma unroll
    for (int j = 0; j < Step::kInputs / kMmaInputs; ++j) {
      Activations b[Cut::kColumns];
#pragma unroll
      for (int c = 0; c < Cut::kColumns; ++c) {
        const int row = (row_warp_ * Cut::kColumns + c) * kMmaRows + lane_ / 4;
        const int at = (j * columns_ + min(row, columns_ - 1)) * 4 + lane_ % 4;
        b[c] = Split(*reinterpret_cast<const float4*>(x + at * 16));
      }
#pragma unroll
      for (int t = 0; t < Cut::kTiles; ++t) {
        const Weights w = LoadWeights<kFormat>(weight + t * Step::kBytes, j, lane_);
#pragma unroll
        for (int c = 0; c < Cut::kColumns; ++c) {
          Mma(sum[t][c], w, b[c].high);
          Mma(sum[t][c], w, b[c].low);
        }
      }
    }
  }

  __device__ void CloseSlice() {
#pragma unroll
    for (int t = 0; t < Cut::kTiles; ++t) {
#pragma unroll
      for (int c = 0; c < Cut::kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          total_[t][c][i] += sum_[t][c][i];
          sum_[t][c][i] = 0.0f;
        }
      }
    }
  }

  __device__ void Finish(int output, int row, float sum) const {
    const int n = first_tile_ * kTileOutputs + output;
    if (n >= job_.outputs) return;
    if constexpr (Step::kRowScale) {
      const size_t bytes = static_cast<size_t>(tiles_) * steps_ * Step::kBytes;
      sum *= reinterpret_cast<const float*>(job_.weight + bytes)[n];
    }
    float* y = job_.y + (first_row_ + row) * job_.y_stride + n;
    *y = ApplyEpilogue(job_.epilogue, sum, y);
  }

  const DenseJob& job_;
  const int steps_, tiles_, first_tile_, first_row_, columns_, lane_, thread_;
  const int tile_warp_, row_warp_;
  float sum_[Cut::kTiles][Cut::kColumns][4] = {};
  float total_[Cut::kWholeSum ? Cut::kTiles : 1][Cut::kColumns][4] = {};
};

template <WeightFormat kFormat, class Cut>
__device__ void DenseJobBlock(const DenseJobs& jobs, const DenseJob& job, uint8_t* shared) {
  const int first_tile = (static_cast<int>(blockIdx.y) - job.first_block) * Cut::kBlockTiles;
  const int first_row = static_cast<int>(blockIdx.x) * Cut::kBlockRows;
  DenseBlock<kFormat, Cut> block(job, first_tile, first_row, jobs.rows);
  if constexpr (Cut::kWholeSum) {
    block.Run(shared, jobs.stages, jobs.stage_bytes, 0, kSlices);
    block.FinishWhole();
  } else {
    const int slice = static_cast<int>(threadIdx.x) / kWarp;
    block.Run(shared + slice * jobs.stages * jobs.stage_bytes, jobs.stages, jobs.stage_bytes, slice,
              slice + 1);
    // The partial sums stand where the stages of all warps were.
    __syncthreads();
    float* partials = reinterpret_cast<float*>(shared);
    block.StorePartial(partials + slice * Cut::kBlockRows * Cut::kPartialStride);
    __syncthreads();
    block.FinishPartials(partials);
  }
}

// blockIdx.x: groups of rows; blockIdx.y: groups of outputs of all jobs, one after the other.
// Neighbouring blocks use the same weights.
template <class Cut, int kBlocksPerSm>
__global__ void __launch_bounds__(kDenseWarps* kWarp, kBlocksPerSm)
    DenseKernel(const __grid_constant__ DenseJobs jobs) {
  extern __shared__ __align__(128) uint8_t shared[];
  int j = 0;
  while (j + 1 < jobs.count && static_cast<int>(blockIdx.y) >= jobs.jobs[j + 1].first_block) ++j;
  WithFormat(jobs.jobs[j].format, [&](auto tag) {
    DenseJobBlock<decltype(tag)::value, Cut>(jobs, jobs.jobs[j], shared);
  });
}

}  // namespace tandem
