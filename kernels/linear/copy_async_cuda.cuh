#pragma once

#include <cstdint>

namespace tandem {

__device__ inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// 16 bytes from global to shared memory, past L1; both 16-byte aligned.
__device__ inline void CopyAsync16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(SharedAddress(to)),
               "l"(from)
               : "memory");
}
// The first `bytes` of 16, the rest zero.
__device__ inline void CopyAsyncPart(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
// One 4-byte word, or zero.
__device__ inline void CopyAsyncWord(void* to, const void* from, bool present) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(present ? 4 : 0)
               : "memory");
}
__device__ inline void CopyAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most kPending of this thread's groups are under way.
template <int kPending>
__device__ inline void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace tandem
