#pragma once

#include "kernels/linear/dense_fill_cuda.cuh"
#include "kernels/linear/expand_cuda.cuh"

// What is done with a stage, once its loads are there.

namespace tandem {

// Quad `at` of the activations of a stage.
template <class Cut>
__device__ inline Activations LoadActivations(const uint8_t* x, int at) {
  if constexpr (Cut::kRounded) {
    const uint2 pairs = *reinterpret_cast<const uint2*>(x + at * 8);
    return {.high = {pairs.x, pairs.y}};
  } else {
    return Split(*reinterpret_cast<const float4*>(x + at * 16));
  }
}

// Until the oldest of `stages` - 1 stages under way is there for this thread.
__device__ inline void WaitForStage(int stages) {
  static_assert(kMostStages == 4);
  if (stages == 2) {
    CopyAsyncWait<0>();
  } else if (stages == 3) {
    CopyAsyncWait<1>();
  } else {
    CopyAsyncWait<2>();
  }
}

template <class Cut>
__device__ inline void TeamSync() {
  if constexpr (Cut::kTeamWarps == 1) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

template <class Cut>
using DenseSum = float[Cut::kTiles][Cut::kColumns][4];

// sum += the mma of one stage: 16 inputs after the other, high pieces before low ones.
template <WeightFormat kFormat, class Cut>
__device__ inline void MultiplyChain(const DensePlace<kFormat, Cut>& place, const uint8_t* stage,
                                     DenseSum<Cut>& sum) {
  using Step = DenseStep<kFormat>;
  const uint8_t* weight = stage + place.tile_warp * Cut::kTiles * Step::kBytes;
  const uint8_t* x = stage + Cut::kBlockTiles * Step::kBytes;
#pragma unroll
  for (int j = 0; j < Step::kInputs / kMmaInputs; ++j) {
    Activations b[Cut::kColumns];
#pragma unroll
    for (int c = 0; c < Cut::kColumns; ++c) {
      const int row = (place.row_warp * Cut::kColumns + c) * kMmaRows + place.lane / 4;
      const int at = (j * place.columns + min(row, place.columns - 1)) * 4 + place.lane % 4;
      b[c] = LoadActivations<Cut>(x, at);
    }
#pragma unroll
    for (int t = 0; t < Cut::kTiles; ++t) {
      const Weights w = LoadWeights<kFormat>(weight + t * Step::kBytes, j, place.lane);
#pragma unroll
      for (int c = 0; c < Cut::kColumns; ++c) {
        Mma(sum[t][c], w, b[c].high);
        if constexpr (!Cut::kRounded) Mma(sum[t][c], w, b[c].low);
      }
    }
  }
}

// sum += one stage, in the order of the format.
template <WeightFormat kFormat, class Cut>
__device__ inline void MultiplyStage(const DensePlace<kFormat, Cut>& place, const uint8_t* stage,
                                     DenseSum<Cut>& sum) {
  if constexpr (kFormat != WeightFormat::kInt6) {
    MultiplyChain(place, stage, sum);
  } else {
    DenseSum<Cut> part = {};
    MultiplyChain(place, stage, part);
#pragma unroll
    for (int t = 0; t < Cut::kTiles; ++t) {
      const uint8_t* tile =
          stage + (place.tile_warp * Cut::kTiles + t) * DenseStep<kFormat>::kBytes;
      const float2 scale = LoadInt6Scales(tile, place.lane);
#pragma unroll
      for (int c = 0; c < Cut::kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sum[t][c][i] = fmaf(part[t][c][i], i < 2 ? scale.x : scale.y, sum[t][c][i]);
      }
    }
  }
}

}  // namespace tandem
