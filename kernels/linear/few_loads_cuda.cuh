#pragma once

#include "kernels/linear/dense_stage_cuda.cuh"

namespace tandem {

// The walk of one warp's loads: the steps of its slice in one group after the other.
template <class Cut>
class FewLoads {
 public:
  __device__ FewLoads(const DenseJobs& jobs, int slice, int first_row, int columns)
      : jobs_(jobs),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        slice_(slice),
        first_row_(first_row),
        columns_(columns),
        group_(static_cast<int>(blockIdx.y)) {
    Enter();
  }

  __device__ bool Done() const { return group_ >= jobs_.groups; }
  // Of the step, into a stage.
  __device__ void Weights(uint8_t* stage) const {
    uint8_t* const to = stage + lane_ * 16;
#pragma unroll
    for (int t = 0; t < Cut::kTiles; ++t) {
      const uint8_t* const from = weight_ + (t < tiles_ ? t : tiles_ - 1) * tile_bytes_;
      CopyAsync16(to + t * step_bytes_, from);
      if (lane_ * 16 + 512 < step_bytes_) CopyAsync16(to + t * step_bytes_ + 512, from + 512);
    }
  }
  __device__ void Inputs(uint8_t* stage) const {
    uint8_t* const to = stage + Cut::kTiles * step_bytes_;
    const int parts = 1 << parts_log2_;
    for (int i = lane_; i < columns_ << parts_log2_; i += kWarp) {
      const int part = i & (parts - 1), row = i >> parts_log2_;
      const int of16 = part & ((1 << parts16_log2_) - 1);
      uint8_t* const at =
          to + ((((part >> parts16_log2_) * columns_ + row) << parts16_log2_) + of16) * 16;
      if (whole_) {
        CopyAsyncPart(at, x_ + row * row_bytes_ + part * 16, 16);
      } else {
        FillQuad(at, jobs_.jobs[job_], first_row_ + row, (step_ * parts + part) * 4);
      }
    }
  }
  __device__ void Next() {
    weight_ += step_bytes_;
    x_ += 16 << parts_log2_;
    if (++step_ < end_) return;
    group_ += static_cast<int>(gridDim.y);
    Enter();
  }

 private:
  // Slices of short sums can be empty.
  __device__ void Enter() {
    for (; group_ < jobs_.groups; group_ += static_cast<int>(gridDim.y)) {
      job_ = JobOfGroup(jobs_, group_, job_);
      const DenseJob& job = jobs_.jobs[job_];
      step_ = SliceStep(job.steps, slice_);
      end_ = SliceStep(job.steps, slice_ + 1);
      if (step_ == end_) continue;
      const int first_tile = (group_ - job.first_group) * Cut::kTiles;
      step_bytes_ = StepBytes(job.format);
      tile_bytes_ = job.steps * step_bytes_;
      tiles_ = job.tiles - first_tile;
      weight_ = job.weight + static_cast<size_t>(first_tile) * tile_bytes_ + step_ * step_bytes_ +
                lane_ * 16;
      EnterInputs(job);
      return;
    }
  }
  __device__ void EnterInputs(const DenseJob& job) {
    const bool rounded = job.rounded != nullptr;
    parts16_log2_ = rounded ? 1 : 2;
    parts_log2_ = rounded || job.format == WeightFormat::kBf16 ? 3 : 4;
    row_bytes_ = static_cast<int>(rounded ? job.rounded_stride * 2 : job.x_stride * 4);
    x_ = rounded ? reinterpret_cast<const uint8_t*>(job.rounded)
                 : reinterpret_cast<const uint8_t*>(job.x);
    x_ += static_cast<size_t>(first_row_) * row_bytes_ + (step_ * 16 << parts_log2_);
    whole_ = rounded || (job.aligned && job.inputs % (4 << parts_log2_) == 0);
  }

  const DenseJobs& jobs_;
  const int lane_, slice_, first_row_, columns_;
  int group_, job_ = 0, step_ = 0, end_ = 0;
  // Of the job: bytes of a step and of a tile, tiles from the first on.
  int step_bytes_ = 0, tile_bytes_ = 0, tiles_ = 0;
  // Of its rows: parts of 16 bytes in a step and in 16 inputs, bytes from row to row, whether every
  // step is whole and aligned.
  int parts_log2_ = 0, parts16_log2_ = 0, row_bytes_ = 0;
  bool whole_ = false;
  const uint8_t* weight_ = nullptr;  // of this lane, at the step
  const uint8_t* x_ = nullptr;       // rows of fp32, or of bf16 when rounded, at the step
};

}  // namespace tandem
