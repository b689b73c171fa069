#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>

#include "kernels/accept/rank_key.h"

namespace tandem {

// The keys of n values in descending order, sorted only as far as they are asked for.
class Ranking final {
 public:
  // `memory` holds n keys. `values` may be the upper half of the same memory: it is overwritten.
  Ranking(const float* values, int n, uint64_t* memory) : keys_(memory), size_(n) {
    for (int i = 0; i < n; ++i) {
      float value;
      std::memcpy(&value, reinterpret_cast<const char*>(values) + sizeof(float) * i, sizeof(value));
      const uint64_t key = RankKey(value, static_cast<uint32_t>(i));
      std::memcpy(reinterpret_cast<char*>(memory) + sizeof(key) * i, &key, sizeof(key));
    }
  }

  int size() const { return size_; }

  // The key of rank j, 0 the largest; j < size().
  uint64_t key(int j) {
    while (j >= sorted_) Extend();
    return keys_[j];
  }

 private:
  void Extend() {
    const int end = std::min(size_, sorted_ + std::max(64, sorted_));
    if (end < size_)
      std::nth_element(keys_ + sorted_, keys_ + end, keys_ + size_, std::greater<uint64_t>());
    std::sort(keys_ + sorted_, keys_ + end, std::greater<uint64_t>());
    sorted_ = end;
  }

  uint64_t* keys_;
  int size_;
  int sorted_ = 0;
};

}  // namespace tandem
