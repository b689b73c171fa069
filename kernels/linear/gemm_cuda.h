#pragma once

#include <memory>
#include <utility>

#include "kernels/device_cuda.h"
#include "kernels/linear/cublaslt_cuda.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/round_rows_cuda.h"
#include "kernels/linear/scratch_cuda.h"

namespace tandem {

// Rows up to which an op always runs our own kernels, whose rows depend on themselves only: those
// of decoding and verification.
inline constexpr int kMostInvariantRows = 64;

// Large linear ops through cuBLASLt: the packed matrix is unpacked to bf16, or E4M3 with
// rounded_inputs, the rows are rounded to the same, and the sums of fp32 are finished by a kernel
// of ours. Faster than our kernels, but the bits of a row depend on how many rows there are.
class GemmCuda final {
 public:
  // What it works in; the rows stand in LinearScratchCuda.
  struct Memory {
    ScratchCuda weights;
    ScratchCuda sums;
    ScratchCuda workspace;
  };
  // Bytes of these for a matrix, and for ops of `rows` rows with up to `outputs` outputs.
  static size_t WeightBytes(const Matrix& matrix);
  static size_t SumBytes(int rows, int outputs);

  explicit GemmCuda(std::unique_ptr<CublasLt> library) : library_(std::move(library)) {}

  void Use(const Memory& memory) { memory_ = memory; }
  // Enqueues the op. False, and nothing enqueued, where it is not for cuBLASLt: few rows, or a
  // shape that it does not take.
  bool Run(const LinearArgs& args, const DeviceCuda& device);

 private:
  // Outputs [first, first + count).
  void RunPart(const LinearArgs& args, int first, int count, const GemmShape& shape,
               const RoundedRows& rounded, const DeviceCuda& device);

  std::unique_ptr<CublasLt> library_;
  Memory memory_;
};

}  // namespace tandem
