#pragma once

#include "kernels/linear/dense_few_cuda.cuh"

namespace tandem {

// total += sum, sum = 0.
template <class Cut>
__device__ inline void CloseSlice(DenseSum<Cut>& total, DenseSum<Cut>& sum) {
  ForEachSum<Cut>([&](int t, int c, int i) {
    total[t][c][i] += sum[t][c][i];
    sum[t][c][i] = 0.0f;
  });
}

// The sum of the slices [first, end); every thread of the team calls it. ring: jobs.stages stages.
// The first weights are on their way before the kernels before this one have finished.
template <WeightFormat kFormat, class Cut>
__device__ inline void SumSlices(const DensePlace<kFormat, Cut>& place, const DenseJobs& jobs,
                                 uint8_t* ring, int first, int end, DenseSum<Cut>& total) {
  const int stages = jobs.stages, steps = place.steps;
  const int first_step = SliceStep(steps, first), end_step = SliceStep(steps, end);
  int slice_end = SliceStep(steps, first + 1);
  for (int s = 0; s < stages - 1; ++s) {
    if (first_step + s < end_step) FillWeights(place, ring + s * jobs.stage_bytes, first_step + s);
  }
  WaitForEarlier();
  for (int s = 0; s < stages - 1; ++s) {
    if (first_step + s < end_step) FillInputs(place, ring + s * jobs.stage_bytes, first_step + s);
    CopyAsyncCommit();
  }
  DenseSum<Cut> sum = {};
  int slot = 0, fill_slot = stages - 1;
  for (int step = first_step; step < end_step; ++step) {
    if constexpr (Cut::kWholeSum) {
      for (; step == slice_end; slice_end = SliceStep(steps, ++first + 1))
        CloseSlice<Cut>(total, sum);
    }
    WaitForStage(stages);
    // The stage is there for all, and everybody is done with the one that is filled next.
    TeamSync<Cut>();
    const int ahead = step + stages - 1;
    if (ahead < end_step) {
      FillWeights(place, ring + fill_slot * jobs.stage_bytes, ahead);
      FillInputs(place, ring + fill_slot * jobs.stage_bytes, ahead);
    }
    CopyAsyncCommit();
    MultiplyStage(place, ring + slot * jobs.stage_bytes, Cut::kWholeSum ? sum : total);
    slot = slot + 1 == stages ? 0 : slot + 1;
    fill_slot = fill_slot + 1 == stages ? 0 : fill_slot + 1;
  }
  if constexpr (Cut::kWholeSum) CloseSlice<Cut>(total, sum);
}

// blockIdx.x: groups of rows; blockIdx.y: groups of outputs of all jobs, one after the other.
template <class Cut>
__device__ void DenseBlock(const DenseJobs& jobs, uint8_t* shared) {
  const int group = static_cast<int>(blockIdx.y);
  const DenseJob& job = jobs.jobs[JobOfGroup(jobs, group, 0)];
  const int first_row = static_cast<int>(blockIdx.x) * Cut::kBlockRows;
  WithPlace<Cut>(jobs, job, group, first_row, [&](const auto& place) {
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
      // The partial sums stand where the stages of all warps were.
      __syncthreads();
      FinishSlices(place, reinterpret_cast<float*>(shared), slice, total);
    }
  });
}

// kAhead: for at most 8 rows. With more, neighbouring blocks use the same weights, and blocks of
// the next kernel would take room from those that are to come.
template <class Cut, int kBlocksPerSm, bool kAhead>
__global__ void __launch_bounds__(kDenseWarps* kWarp, kBlocksPerSm)
    DenseKernel(const __grid_constant__ DenseJobs jobs) {
  extern __shared__ __align__(128) uint8_t shared[];
  if constexpr (kAhead) {
    LetNextStart();
    DenseFewBlock<Cut>(jobs, shared);
  } else {
    DenseBlock<Cut>(jobs, shared);
  }
}

}  // namespace tandem
