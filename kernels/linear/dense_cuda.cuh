#pragma once

#include "kernels/linear/dense_stage_cuda.cuh"
#include "kernels/linear/epilogue_cuda.cuh"

namespace tandem {

// total += sum, sum = 0.
template <class Cut>
__device__ inline void CloseSlice(DenseSum<Cut>& total, DenseSum<Cut>& sum) {
#pragma unroll
  for (int t = 0; t < Cut::kTiles; ++t) {
#pragma unroll
    for (int c = 0; c < Cut::kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[t][c][i] += sum[t][c][i];
        sum[t][c][i] = 0.0f;
      }
    }
  }
}

// The sum of the slices [first, end); every thread of the team calls it. ring: jobs.stages stages.
template <WeightFormat kFormat, class Cut>
__device__ inline void SumSlices(const DensePlace<kFormat, Cut>& place, const DenseJobs& jobs,
                                 uint8_t* ring, int first, int end, DenseSum<Cut>& total) {
  const int stages = jobs.stages;
  const int first_step = place.SliceStep(first), end_step = place.SliceStep(end);
  int slice_end = place.SliceStep(first + 1);
  DenseSum<Cut> sum = {};
  for (int s = 0; s < stages - 1; ++s) {
    if (first_step + s < end_step) FillStage(place, ring + s * jobs.stage_bytes, first_step + s);
    CopyAsyncCommit();
  }
  int slot = 0, fill_slot = stages - 1;
  for (int step = first_step; step < end_step; ++step) {
    if constexpr (Cut::kWholeSum) {
      for (; step == slice_end; slice_end = place.SliceStep(++first + 1))
        CloseSlice<Cut>(total, sum);
    }
    WaitForStage(stages);
    // The stage is there for all, and everybody is done with the one that is filled next.
    TeamSync<Cut>();
    const int ahead = step + stages - 1;
    if (ahead < end_step) FillStage(place, ring + fill_slot * jobs.stage_bytes, ahead);
    CopyAsyncCommit();
    MultiplyStage(place, ring + slot * jobs.stage_bytes, Cut::kWholeSum ? sum : total);
    slot = slot + 1 == stages ? 0 : slot + 1;
    fill_slot = fill_slot + 1 == stages ? 0 : fill_slot + 1;
  }
  if constexpr (Cut::kWholeSum) CloseSlice<Cut>(total, sum);
}

template <WeightFormat kFormat, class Cut>
__device__ inline void FinishSum(const DensePlace<kFormat, Cut>& place, int output, int row,
                                 float sum) {
  using Step = DenseStep<kFormat>;
  const DenseJob& job = place.job;
  const int n = place.first_tile * kTileOutputs + output;
  if (n >= job.outputs || row >= place.columns) return;
  if constexpr (Cut::kRounded) sum *= job.x_scales[place.first_row + row];
  if constexpr (Step::kRowScale) {
    const size_t bytes = static_cast<size_t>(place.tiles) * place.steps * Step::kBytes;
    sum *= reinterpret_cast<const float*>(job.weight + bytes)[n];
  }
  float* y = job.y + (place.first_row + row) * job.y_stride + n;
  *y = ApplyEpilogue(job.epilogue, sum, y);
}

// Calls body(tile, column, i) for every sum of a thread.
template <class Cut, class Body>
__device__ inline void ForEachSum(const Body& body) {
#pragma unroll
  for (int t = 0; t < Cut::kTiles; ++t) {
#pragma unroll
    for (int c = 0; c < Cut::kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) body(t, c, i);
    }
  }
}

// A slice per warp: adds the sums of all of them in order; partials [8][rows][kPartialStride].
template <WeightFormat kFormat, class Cut>
__device__ inline void FinishSlices(const DensePlace<kFormat, Cut>& place, float* partials,
                                    int slice, const DenseSum<Cut>& sum) {
  constexpr int kSliceSize = Cut::kBlockRows * Cut::kPartialStride;
  float* own = partials + slice * kSliceSize;
  // The partial sums stand where the stages of all warps were.
  __syncthreads();
  ForEachSum<Cut>([&](int t, int c, int i) {
    own[place.RowOf(c, i) * Cut::kPartialStride + place.OutputOf(t, i)] = sum[t][c][i];
  });
  __syncthreads();
  for (int i = threadIdx.x; i < place.columns * Cut::kBlockOutputs; i += kDenseWarps * kWarp) {
    const int output = i % Cut::kBlockOutputs, row = i / Cut::kBlockOutputs;
    const float* part = partials + row * Cut::kPartialStride + output;
    float all = 0.0f;
#pragma unroll
    for (int s = 0; s < kSlices; ++s) all += part[s * kSliceSize];
    FinishSum(place, output, row, all);
  }
}

template <WeightFormat kFormat, class Cut>
__device__ void DenseBlock(const DenseJobs& jobs, const DenseJob& job, uint8_t* shared) {
  const int first_tile = (static_cast<int>(blockIdx.y) - job.first_block) * Cut::kBlockTiles;
  const int first_row = static_cast<int>(blockIdx.x) * Cut::kBlockRows;
  const DensePlace<kFormat, Cut> place(job, first_tile, first_row, jobs.rows);
  DenseSum<Cut> total = {};
  if constexpr (Cut::kWholeSum) {
    SumSlices(place, jobs, shared, 0, kSlices, total);
    ForEachSum<Cut>([&](int t, int c, int i) {
      FinishSum(place, place.OutputOf(t, i), place.RowOf(c, i), total[t][c][i]);
    });
  } else {
    const int slice = static_cast<int>(threadIdx.x) / kWarp;
    uint8_t* ring = shared + slice * jobs.stages * jobs.stage_bytes;
    SumSlices(place, jobs, ring, slice, slice + 1, total);
    FinishSlices(place, reinterpret_cast<float*>(shared), slice, total);
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
  if (jobs.jobs[j].rounded != nullptr)
    return DenseBlock<WeightFormat::kFp8, RoundedCut<Cut>>(jobs, jobs.jobs[j], shared);
  WithFormat(jobs.jobs[j].format,
             [&](auto tag) { DenseBlock<decltype(tag)::value, Cut>(jobs, jobs.jobs[j], shared); });
}

}  // namespace tandem
