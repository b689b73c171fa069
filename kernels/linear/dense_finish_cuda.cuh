#pragma once

#include "kernels/linear/dense_stage_cuda.cuh"
#include "kernels/linear/epilogue_cuda.cuh"

namespace tandem {

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

// Scales the finished sum of an output and row of the block and stores it.
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

// Adds the sums of the slices of a group in order and writes y; the block calls it together.
// partials [8][rows][kPartialStride].
template <WeightFormat kFormat, class Cut>
__device__ inline void FinishSlices(const DensePlace<kFormat, Cut>& place, float* partials,
                                    int slice, const DenseSum<Cut>& sum) {
  constexpr int kSliceSize = Cut::kBlockRows * Cut::kPartialStride;
  float* own = partials + slice * kSliceSize;
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

}  // namespace tandem
