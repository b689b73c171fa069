#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tandem {

// Makes damaged copies of a file, the same ones for the same seed: flipped bits, bytes and
// little-endian numbers replaced by extreme ones, ranges removed, repeated, zeroed or moved, ends
// cut off.
class Mutator final {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}
  // One to four changes.
  std::string Mutate(std::string bytes);

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  void ChangeOnce(std::string* bytes);

  std::mt19937 random_;
};

}  // namespace tandem
