#pragma once

#include "kernels/linear/copy_async_cuda.cuh"
#include "kernels/linear/dense_job_cuda.cuh"

// A stage is one step of K in shared memory: the weights of the team's tiles, [tiles][kBytes], then
// the activations [16 inputs][row][16 inputs] of fp32, or of bf16 when they have been rounded.

namespace tandem {

// Four inputs of a row from k on; zeros from K on.
__device__ inline void FillQuad(uint8_t* to, const DenseJob& job, int row, int k) {
  const float* x = job.x + row * job.x_stride;
  const int present = min(max(job.inputs - k, 0), 4);
  const float* from = x + (present > 0 ? k : 0);
  if (job.aligned) return CopyAsyncPart(to, from, present * 4);
  for (int i = 0; i < 4; ++i) CopyAsyncWord(to + i * 4, i < present ? from + i : x, i < present);
}

// The bytes and inputs of a step of a format known at run time.
__host__ __device__ inline int StepBytes(WeightFormat format) {
  return format == WeightFormat::kInt6 ? DenseStep<WeightFormat::kInt6>::kBytes
                                       : DenseStep<WeightFormat::kFp8>::kBytes;
}
__host__ __device__ inline int StepInputs(WeightFormat format) {
  return format == WeightFormat::kBf16 ? DenseStep<WeightFormat::kBf16>::kInputs
                                       : DenseStep<WeightFormat::kFp8>::kInputs;
}

// The activations of a step.
template <WeightFormat kFormat, class Cut>
__device__ inline void FillExact(const DensePlace<kFormat, Cut>& place, uint8_t* to, int step) {
  constexpr int kInputs = DenseStep<kFormat>::kInputs, kQuads = kInputs / 4;
  for (int i = place.thread; i < place.columns * kQuads; i += Cut::kTeamThreads) {
    const int quad = i % kQuads, row = i / kQuads;
    FillQuad(to + ((quad / 4 * place.columns + row) * 4 + quad % 4) * 16, place.job,
             place.first_row + row, step * kInputs + quad * 4);
  }
}
template <WeightFormat kFormat, class Cut>
__device__ inline void FillRounded(const DensePlace<kFormat, Cut>& place, uint8_t* to, int step) {
  constexpr int kInputs = DenseStep<kFormat>::kInputs, kEights = kInputs / 8;
  for (int i = place.thread; i < place.columns * kEights; i += Cut::kTeamThreads) {
    const int eight = i % kEights, row = i / kEights;
    const uint16_t* from =
        place.job.rounded + (place.first_row + row) * place.job.rounded_stride + step * kInputs;
    CopyAsync16(to + ((eight / 2 * place.columns + row) * 2 + eight % 2) * 16, from + eight * 8);
  }
}

// Start the loads of one step of a block's outputs and rows. Tiles beyond the last are the last
// again.
template <WeightFormat kFormat, class Cut>
__device__ inline void FillWeights(const DensePlace<kFormat, Cut>& place, uint8_t* stage,
                                   int step) {
  using Step = DenseStep<kFormat>;
#pragma unroll
  for (int t = 0; t < Cut::kBlockTiles; ++t) {
    const size_t tile = static_cast<size_t>(min(place.first_tile + t, place.tiles - 1));
    const uint8_t* from = place.job.weight + (tile * place.steps + step) * Step::kBytes;
    for (int i = place.thread * 16; i < Step::kBytes; i += Cut::kTeamThreads * 16)
      CopyAsync16(stage + t * Step::kBytes + i, from + i);
  }
}
template <WeightFormat kFormat, class Cut>
__device__ inline void FillInputs(const DensePlace<kFormat, Cut>& place, uint8_t* stage, int step) {
  using Step = DenseStep<kFormat>;
  uint8_t* to = stage + Cut::kBlockTiles * Step::kBytes;
  if constexpr (Cut::kRounded) {
    FillRounded(place, to, step);
  } else {
    FillExact(place, to, step);
  }
}

}  // namespace tandem
