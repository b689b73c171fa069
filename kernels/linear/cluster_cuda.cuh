#pragma once

#include "kernels/linear/copy_async_cuda.cuh"

// Thread block clusters, which need sm_90 or later.

namespace tandem {

// Every thread of every block of the cluster: what they wrote to shared memory is there for all.
__device__ inline void ClusterSync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
#else
  __trap();
#endif
}

// The float at `local`'s place in the shared memory of the cluster's block `rank`.
__device__ inline float ReadCluster(const float* local, int rank) {
  float value = 0.0f;
#if __CUDA_ARCH__ >= 900
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(SharedAddress(local)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
#endif
  return value;
}

}  // namespace tandem
