#pragma once

#include <bit>
#include <cstdint>

namespace tandem {

// The natural logarithm of a positive normal x, to about two units in the last place. Only sums,
// products and quotients that round once, so that every processor gives the same bits.
constexpr double Log(double x) {
  // x = 2^k m with m in [1/sqrt 2, sqrt 2), and log m = 2 atanh s.
  constexpr uint64_t kRootHalf = 0x3FE6A09E667F3BCDu;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int64_t k = static_cast<int64_t>(bits - kRootHalf) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(k) << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;  // at most 0.0295, so that the next term is below 2^-58
  double p = 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  // ln 2 in two pieces, the first with so few bits that k times it is exact.
  constexpr double kLn2High = 0x1.62e42fefap-1;
  constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
  const double n = static_cast<double>(k);
  const double twice = 2.0 * s;
  return n * kLn2High + (twice + (twice * (p * z) + n * kLn2Low));
}

}  // namespace tandem
