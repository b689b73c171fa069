#pragma once

#include "kernels/linear/dense_finish_cuda.cuh"
#include "kernels/linear/few_loads_cuda.cuh"

// At most 8 rows: a block takes one group of outputs after the other, and the loads of its warps
// run ahead of their sums across groups and jobs.

namespace tandem {

// A warp's stages: those from `slot` on are under way or there.
struct FewRing {
  uint8_t* stages;
  int count;
  int bytes;
  int slot = 0;

  __device__ uint8_t* At(int ahead) const {
    const int at = slot + ahead;
    return stages + (at < count ? at : at - count) * bytes;
  }
  __device__ void Advance() { slot = slot + 1 == count ? 0 : slot + 1; }
};

// The sum of a warp's slice of a group.
template <WeightFormat kFormat, class Cut, class Loads>
__device__ inline void SumSlice(const DensePlace<kFormat, Cut>& place, int slice, FewRing& ring,
                                Loads& loads, DenseSum<Cut>& sum) {
  const int steps = place.steps;
  const int count = SliceStep(steps, slice + 1) - SliceStep(steps, slice);
  for (int i = 0; i < count; ++i) {
    WaitForStage(ring.count);
    // The stage is there for all, and everybody is done with the one that is filled next.
    __syncwarp();
    if (!loads.Done()) {
      uint8_t* const stage = ring.At(ring.count - 1);
      loads.Weights(stage);
      loads.Inputs(stage);
      loads.Next();
    }
    CopyAsyncCommit();
    MultiplyStage(place, ring.At(0), sum);
    ring.Advance();
  }
}

// Floats of the partial sums of two groups: while a block adds those of one, its warps may write
// those of the next.
template <class Cut>
constexpr int kFewPartials = 2 * kSlices* Cut::kBlockRows* Cut::kPartialStride;

// blockIdx.x: groups of rows; blockIdx.y: the first group of outputs.
template <class Cut>
__device__ void DenseFewBlock(const DenseJobs& jobs, uint8_t* shared) {
  const int slice = static_cast<int>(threadIdx.x) / kWarp;
  const int first_row = static_cast<int>(blockIdx.x) * Cut::kBlockRows;
  float* const partials = reinterpret_cast<float*>(shared);
  uint8_t* const stages = shared + kFewPartials<Cut> * sizeof(float);
  FewRing ring = {.stages = stages + slice * jobs.stages * jobs.stage_bytes,
                  .count = jobs.stages,
                  .bytes = jobs.stage_bytes};
  FewLoads<Cut> loads(jobs, slice, first_row, min(jobs.rows - first_row, Cut::kBlockRows));
  FewLoads<Cut> weights = loads;
  for (int s = 0; s + 1 < ring.count && !weights.Done(); ++s, weights.Next())
    weights.Weights(ring.At(s));
  WaitForEarlier();
  for (int s = 0; s + 1 < ring.count; ++s) {
    if (!loads.Done()) {
      loads.Inputs(ring.At(s));
      loads.Next();
    }
    CopyAsyncCommit();
  }
  int j = 0, parity = 0;
  for (int group = blockIdx.y; group < jobs.groups; group += gridDim.y, parity ^= 1) {
    j = JobOfGroup(jobs, group, j);
    WithPlace<Cut>(jobs, jobs.jobs[j], group, first_row, [&](const auto& place) {
      DenseSum<Cut> sum = {};
      SumSlice(place, slice, ring, loads, sum);
      FinishSlices(place, partials + parity * (kFewPartials<Cut> / 2), slice, sum);
    });
  }
}

}  // namespace tandem
