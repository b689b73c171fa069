#pragma once

#include <cstdint>

namespace tandem {

// The sum of e^(values[i] - shift) over i in [0, n), none above 1, in Units; -inf and NaN count as
// no term.
uint64_t ExpSum(const float* values, int n, float shift);

}  // namespace tandem
