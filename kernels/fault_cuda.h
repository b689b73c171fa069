#pragma once

namespace tandem {

// Exit code of a process that has lost its GPU: to a fault of its own or, under MPS, of another
// client, or to the end of the MPS daemon. A new process may find the GPU well.
inline constexpr int kGpuLostExitCode = 3;

// Ends the process because a CUDA call has failed with `error`, a cudaError_t; says so in one line.
// At once where the GPU is lost: destructors, exit handlers and a core image would call a driver
// that may not answer. With an abort where the call itself was a mistake.
[[noreturn]] void EndOnCudaError(const char* file, int line, const char* call, int error);

}  // namespace tandem
