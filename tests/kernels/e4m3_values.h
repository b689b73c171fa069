#pragma once

#include <cmath>

namespace tandem {

// The value of an E4M3 code by its definition: sign, 4 bits of exponent with bias 7, 3 of mantissa.
inline double E4m3Value(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

// The nearest of the 127 values of a sign, of two the one with an even code.
inline int NearestE4m3(double value) {
  int best = 0;
  for (int code = 1; code < 0x7f; ++code) {
    const double distance = std::fabs(E4m3Value(code) - std::fabs(value));
    const double least = std::fabs(E4m3Value(best) - std::fabs(value));
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return std::signbit(value) ? best | 0x80 : best;
}

}  // namespace tandem
