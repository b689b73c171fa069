#pragma once

// The runtime's stream type, so that hosts of CUDA ops need no CUDA headers.
struct CUstream_st;

namespace tandem {

class GemmCuda;
struct LinearScratchCuda;

// Where the CUDA ops run: everything is enqueued on one stream of one device. An op's launcher
// neither allocates nor waits, so that it can be recorded into a graph.
struct DeviceCuda {
  CUstream_st* stream = nullptr;
  int multiprocessors = 0;
  const LinearScratchCuda* linear = nullptr;
  GemmCuda* gemm = nullptr;  // null: batch-invariant, every row count runs our own kernels
};

}  // namespace tandem
