#pragma once

namespace tandem {

// e^x in fp32, with the same bits on every instruction set; x below -87 counts as -87.
float Exp(float x);

// The sum of e^(values[i] - shift) over i in [0, n) in ascending order, each term as Exp gives it;
// -inf and NaN count as no term.
double ExpSum(const float* values, int n, float shift);

}  // namespace tandem
