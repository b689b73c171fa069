#pragma once

#include <cstdint>

#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/tile_cuda.cuh"

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
inline constexpr int kMostStages = 4;

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
  static constexpr bool kRounded = false;
  static_assert(kTeams == 1 || kTeams == kSlices);
};

// The same for rows that have been rounded: one bf16 piece each, as they are in memory.
template <class Cut>
struct RoundedCut : Cut {
  static constexpr bool kRounded = true;
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
  int tiles;        // of outputs
  int steps;        // of K
  int first_group;  // of outputs
  WeightFormat format;
  Epilogue epilogue;
  bool aligned;             // every row of x is 16-byte aligned
  const uint16_t* rounded;  // [M, rounded_stride] bf16, read instead of x; or null
  size_t rounded_stride;    // K and zeros up to a whole step
  const float* x_scales;    // [M], of the sums of rounded rows
};

struct DenseJobs {
  DenseJob jobs[kMostLinearJobs];
  int count;
  int groups;       // of outputs, of all jobs one after the other
  int rows;         // M
  int stages;       // of the loads in shared memory, 2 ... kMostStages
  int stage_bytes;  // the largest of any job's format
};

// The job of a group of outputs, which is not before that of `from`.
__device__ inline int JobOfGroup(const DenseJobs& jobs, int group, int from) {
  while (from + 1 < jobs.count && group >= jobs.jobs[from + 1].first_group) ++from;
  return from;
}
__device__ inline int SliceStep(int steps, int slice) { return steps * slice / kSlices; }

// Where a block, a warp and a lane stand in a job.
template <WeightFormat kFormat, class Cut>
struct DensePlace {
  using Step = DenseStep<kFormat>;

  __device__ DensePlace(const DenseJob& of, int tile, int row, int rows)
      : job(of),
        steps(of.steps),
        tiles(of.tiles),
        first_tile(tile),
        first_row(row),
        columns(min(rows - row, Cut::kBlockRows)),
        lane(static_cast<int>(threadIdx.x) % kWarp),
        thread(static_cast<int>(threadIdx.x) % Cut::kTeamThreads),
        tile_warp(thread / kWarp / Cut::kRowWarps),
        row_warp(thread / kWarp % Cut::kRowWarps) {}

  // Of sum i of the mma of a warp's tile and column, in the block.
  __device__ int OutputOf(int tile, int i) const {
    return (tile_warp * Cut::kTiles + tile) * kTileOutputs + lane / 4 + i / 2 * 8;
  }
  __device__ int RowOf(int column, int i) const {
    return (row_warp * Cut::kColumns + column) * kMmaRows + lane % 4 * 2 + i % 2;
  }

  const DenseJob& job;
  const int steps, tiles, first_tile, first_row;
  const int columns;  // rows of the block
  const int lane;
  const int thread;  // in its team
  const int tile_warp, row_warp;
};

// Calls body(place) with a block's place in a group of outputs of `job`, whose format and rounding
// are known at run time.
template <class Cut, class Body>
__device__ inline void WithPlace(const DenseJobs& jobs, const DenseJob& job, int group,
                                 int first_row, const Body& body) {
  const int first_tile = (group - job.first_group) * Cut::kBlockTiles;
  if (job.rounded != nullptr) {
    body(DensePlace<WeightFormat::kFp8, RoundedCut<Cut>>(job, first_tile, first_row, jobs.rows));
    return;
  }
  WithFormat(job.format, [&](auto tag) {
    body(DensePlace<decltype(tag)::value, Cut>(job, first_tile, first_row, jobs.rows));
  });
}

}  // namespace tandem
