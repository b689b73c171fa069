#pragma once

#include <cstdint>

#include "kernels/accept/penalty.h"

namespace tandem {

// log of the sum of exp over n logits. NaN counts as -inf.
float LogSumExp(const float* logits, int n);

// logit - log_sum_exp; -inf for NaN and -inf.
constexpr float Logprob(float logit, float log_sum_exp) {
  return logit > kExcluded ? logit - log_sum_exp : kExcluded;
}

// The `count` largest of n logits, largest first, ties to the lowest id, as ids and as
// Logprob of each. Beyond n: id -1 and -inf. ids and values are [count].
void TopLogprobs(const float* logits, int n, float log_sum_exp, int count, int32_t* ids,
                 float* values);

}  // namespace tandem
