#pragma once

namespace tandem {

// to = (x - mean) / sqrt(variance + 1e-5) · weight + bias over [width], a multiple of 16;
// population variance in fp32. `to` may be x. The sums have one order, whatever the instruction
// set.
void LayerNormRow(const float* x, const float* weight, const float* bias, int width, float* to);

}  // namespace tandem
