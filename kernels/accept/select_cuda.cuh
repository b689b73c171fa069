#pragma once

#include <cstdint>

#include "kernels/accept/rank_key.h"
#include "kernels/accept/row_cuda.cuh"
#include "kernels/accept/weight.h"

namespace tandem {

inline constexpr int kDigits = 256;

// Shared memory of a row's search for its cut.
struct CutMemory {
  uint64_t units[kBuckets];
  uint64_t counts[kBuckets];
  uint32_t digit_counts[kDigits];  // digits in descending order
  uint32_t digit_low[kDigits];     // units, two halves of 32 bits
  uint32_t digit_high[kDigits];
  uint64_t parts[kWarp + 1];
  uint64_t before;
  uint64_t key;
  int bin;
  uint32_t listed;
};

struct Bin {
  int index;
  uint64_t before;  // sum of the bins before it
};

// The first of n bins, a multiple of 32, up to which the sum of measure(i) reaches `needed` > 0;
// the sum of all does. For a whole block, after a barrier.
template <class Measure>
__device__ inline Bin FindBin(CutMemory* memory, int n, uint64_t needed, Measure measure) {
  if (threadIdx.x < kWarp) {
    const int lane = static_cast<int>(threadIdx.x);
    uint64_t before = 0;
    for (int first = 0; first < n; first += kWarp) {
      const uint64_t own = measure(first + lane);
      uint64_t sum = own;
      for (int step = 1; step < kWarp; step *= 2) {
        const uint64_t other = __shfl_up_sync(kAllLanes, sum, step);
        if (lane >= step) sum += other;
      }
      const unsigned reached = __ballot_sync(kAllLanes, before + sum >= needed);
      if (reached != 0) {
        if (lane == __ffs(static_cast<int>(reached)) - 1) {
          memory->bin = first + lane;
          memory->before = before + sum - own;
        }
        break;
      }
      before += __shfl_sync(kAllLanes, sum, kWarp - 1);
    }
  }
  __syncthreads();
  return {memory->bin, memory->before};
}

__device__ inline uint64_t KeyOf(const Row& row, uint32_t id) {
  return RankKey(row.values[id], id);
}

// Counts, for each value of the 8 bits from `shift` on, the listed keys that equal `prefix` in the
// bits of `decided`, and adds up their units.
__device__ inline void CountDigits(const Row& row, CutMemory* memory, uint32_t listed, bool weigh,
                                   uint64_t prefix, uint64_t decided, int shift) {
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kDigits; i += kRowThreads)
    memory->digit_counts[i] = memory->digit_low[i] = memory->digit_high[i] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < listed; i += kRowThreads) {
    const uint64_t key = KeyOf(row, row.ids[i]);
    if (((key ^ prefix) & decided) != 0) continue;
    const int bin = kDigits - 1 - static_cast<int>((key & ~decided) >> shift);
    atomicAdd(&memory->digit_counts[bin], 1u);
    if (!weigh) continue;
    const uint64_t units = Units(Exp(RankValue(key)));
    const uint32_t low = static_cast<uint32_t>(units);
    const uint32_t carry = atomicAdd(&memory->digit_low[bin], low) > ~low ? 1 : 0;
    atomicAdd(&memory->digit_high[bin], static_cast<uint32_t>(units >> 32) + carry);
  }
  __syncthreads();
}

// The listed key at which, in descending order, the number of keys, or the sum of their units,
// reaches `needed` > 0; that of all does. For a whole block.
__device__ inline uint64_t Select(const Row& row, CutMemory* memory, uint32_t listed, bool weigh,
                                  uint64_t needed) {
  // Only bits from the highest in which two keys differ have to be decided.
  uint64_t ones = 0;
  uint64_t zeros = 0;
  for (uint32_t i = threadIdx.x; i < listed; i += kRowThreads) {
    const uint64_t key = KeyOf(row, row.ids[i]);
    ones |= key;
    zeros |= ~key;
  }
  const auto bit_or = [](uint64_t a, uint64_t b) { return a | b; };
  ones = BlockFold(ones, memory->parts, bit_or);
  zeros = BlockFold(zeros, memory->parts, bit_or);
  int open = 64 - __clzll(static_cast<long long>(ones & zeros));
  uint64_t prefix = ones;
  while (open > 0) {
    const uint64_t decided = open == 64 ? 0 : ~uint64_t{0} << open;
    const int shift = open > 8 ? open - 8 : 0;
    prefix &= decided;
    CountDigits(row, memory, listed, weigh, prefix, decided, shift);
    const Bin bin = FindBin(memory, kDigits, needed, [=](int i) {
      return weigh ? uint64_t{memory->digit_high[i]} << 32 | memory->digit_low[i]
                   : uint64_t{memory->digit_counts[i]};
    });
    needed -= bin.before;
    prefix |= static_cast<uint64_t>(kDigits - 1 - bin.index) << shift;
    open = shift;
    if (memory->digit_counts[bin.index] == 1) break;
  }
  // One key is left that equals `prefix` above the open bits.
  const uint64_t decided = open == 64 ? 0 : ~uint64_t{0} << open;
  for (uint32_t i = threadIdx.x; i < listed; i += kRowThreads) {
    const uint64_t key = KeyOf(row, row.ids[i]);
    if (((key ^ prefix) & decided) == 0) memory->key = key;
  }
  __syncthreads();
  return memory->key;
}

}  // namespace tandem
