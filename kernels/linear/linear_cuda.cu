#include <algorithm>
#include <cstdint>

#include "kernels/linear/dense_cuda.cuh"
#include "kernels/linear/gemm_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/round_rows_cuda.h"
#include "kernels/linear/sparse_cuda.h"

namespace tandem {
namespace {

// Shared memory that lets two blocks stand on a multiprocessor, and the most a block can have.
constexpr int kHalfShared = 112 * 1024;
constexpr int kMostShared = 227 * 1024;

int TilesOf(const Matrix& weight) { return CeilDiv(weight.rows, kTileOutputs); }

DenseJob JobOf(const LinearArgs& args, const RoundedRows& rounded, int first_group) {
  const bool aligned = reinterpret_cast<uintptr_t>(args.x.data) % 16 == 0 && args.x_stride % 4 == 0;
  return {.weight = static_cast<const uint8_t*>(args.weight.data),
          .x = args.x.data,
          .y = args.y.data,
          .x_stride = args.x_stride,
          .y_stride = args.y_stride,
          .outputs = args.weight.rows,
          .inputs = args.weight.cols,
          .tiles = TilesOf(args.weight),
          .steps = CeilDiv(args.weight.cols, StepInputs(args.weight.format)),
          .first_group = first_group,
          .format = args.weight.format,
          .epilogue = args.epilogue,
          .aligned = aligned,
          .rounded = static_cast<const uint16_t*>(rounded.rows),
          .rounded_stride = rounded.stride,
          .x_scales = rounded.scales};
}

// Bytes of one stage of the loads of `tiles` tiles and `rows` rows.
int StageBytes(const Matrix& weight, int tiles, int rows) {
  const int input_bytes = weight.rounded_inputs ? 2 : 4;
  return tiles * StepBytes(weight.format) + rows * StepInputs(weight.format) * input_bytes;
}

template <class Cut>
DenseJobs JobsOf(const LinearArgs* args, int count, const RoundedRows* rounded) {
  DenseJobs jobs = {.count = count, .rows = args->rows};
  for (int j = 0; j < count; ++j) {
    jobs.jobs[j] = JobOf(args[j], rounded[j], jobs.groups);
    jobs.groups += CeilDiv(jobs.jobs[j].tiles, Cut::kBlockTiles);
    jobs.stage_bytes = std::max(
        jobs.stage_bytes,
        StageBytes(args[j].weight, Cut::kBlockTiles, std::min(args->rows, Cut::kBlockRows)));
  }
  return jobs;
}

// With at most 8 rows a block runs on over the groups of outputs. Two stand on a multiprocessor, or
// one where every multiprocessor gets a group: no more, so that the work is spread evenly while
// blocks of the kernels before and after are there too.
struct AheadGrid {
  AheadGrid(int groups, int multiprocessors) {
    const bool one = groups <= multiprocessors;
    blocks = std::min(groups, (one ? 1 : 2) * multiprocessors);
    least_shared = one ? kMostShared / 2 : kMostShared / 3;
  }

  int blocks;
  int least_shared;  // of a block: what keeps another one away
};

template <class Cut, int kBlocksPerSm, bool kAhead = false>
void LaunchDense(const LinearArgs* args, int count, const DeviceCuda& device) {
  RoundedRows rounded[kMostLinearJobs];
  RoundRowsCuda(args, count, RowType::kBf16, /*all=*/false, device, rounded);
  DenseJobs jobs = JobsOf<Cut>(args, count, rounded);
  const int row_groups = CeilDiv(args->rows, Cut::kBlockRows);
  constexpr int kPartials = kFewPartials<Cut> * static_cast<int>(sizeof(float));
  constexpr int kBeside = kAhead ? kPartials : 0;
  jobs.stages =
      std::clamp((kHalfShared - kBeside) / (Cut::kTeams * jobs.stage_bytes), 2, kMostStages);
  int shared = kBeside + Cut::kTeams * jobs.stages * jobs.stage_bytes;
  if (!Cut::kWholeSum) shared = std::max(shared, kPartials / 2);
  int blocks = jobs.groups;
  if (kAhead) {
    const AheadGrid grid(jobs.groups, device.multiprocessors);
    blocks = grid.blocks;
    shared = std::max(shared, grid.least_shared);
  }
  static const cudaError_t configured =
      cudaFuncSetAttribute(DenseKernel<Cut, kBlocksPerSm, kAhead>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared);
  CUDA_CHECK(configured);
  LaunchOverlapped(device, DenseKernel<Cut, kBlocksPerSm, kAhead>,
                   dim3(static_cast<unsigned>(row_groups), static_cast<unsigned>(blocks)),
                   dim3(kDenseWarps * kWarp), static_cast<size_t>(shared), jobs);
}

using OneTile = DenseCut<1, 1, 1, 1>;
using TwoTiles = DenseCut<2, 1, 1, 1>;
using TwoTiles16 = DenseCut<2, 2, 1, 1>;
using TwoTiles32 = DenseCut<2, 4, 1, 1>;
using ManyRows = DenseCut<2, 4, 4, 2>;

// Which cut is a matter of speed only: all of them give the same bits.
void LaunchInvariant(const LinearArgs* jobs, int count, const DeviceCuda& device) {
  if (count == 0 || jobs->rows == 0) return;
  const int rows = jobs->rows;
  int pairs = 0, large_blocks = 0;
  for (int j = 0; j < count; ++j) {
    pairs += CeilDiv(TilesOf(jobs[j].weight), TwoTiles::kBlockTiles);
    large_blocks += CeilDiv(TilesOf(jobs[j].weight), ManyRows::kBlockTiles);
  }
  large_blocks *= CeilDiv(rows, ManyRows::kBlockRows);
  if (rows > TwoTiles32::kBlockRows && large_blocks * 4 >= device.multiprocessors * 3) {
    LaunchDense<ManyRows, 1>(jobs, count, device);
  } else if (rows > TwoTiles16::kBlockRows) {
    LaunchDense<TwoTiles32, 1>(jobs, count, device);
  } else if (rows > TwoTiles::kBlockRows) {
    LaunchDense<TwoTiles16, 2>(jobs, count, device);
  } else if (pairs * 8 >= device.multiprocessors * 7) {
    LaunchDense<TwoTiles, 2, true>(jobs, count, device);
  } else {
    LaunchDense<OneTile, 2, true>(jobs, count, device);
  }
}

}  // namespace

void LinearManyCuda(const LinearArgs* jobs, int count, const DeviceCuda& device) {
  if (device.gemm == nullptr) return LaunchInvariant(jobs, count, device);
  LinearArgs others[kMostLinearJobs];
  int left = 0;
  for (int j = 0; j < count; ++j) {
    if (!device.gemm->Run(jobs[j], device)) others[left++] = jobs[j];
  }
  LaunchInvariant(others, left, device);
}

void LinearCuda(const LinearArgs& args, const DeviceCuda& device) {
  if (device.gemm != nullptr && device.gemm->Run(args, device)) return;
  if (args.weight.sparse_inputs) {
    SparseLinearCuda(args, device);
  } else {
    LaunchInvariant(&args, 1, device);
  }
}

}  // namespace tandem
