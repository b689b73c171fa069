#include "kernels/accept/logprob.h"

#include <algorithm>
#include <cmath>

#include "kernels/accept/exp_sum.h"
#include "kernels/accept/weight.h"

namespace tandem {
float LogSumExp(const float* logits, int n) {
  float largest = kExcluded;
  for (int i = 0; i < n; ++i) largest = std::max(largest, NanToLowest(logits[i]));
  if (std::isinf(largest)) return largest;
  return LogSum(largest, ExpSum(logits, n, largest));
}

void TopLogprobs(const float* logits, int n, float log_sum_exp, int count, int32_t* ids,
                 float* values) {
  int filled = 0;
  for (int i = 0; i < n && count > 0; ++i) {
    const float logit = NanToLowest(logits[i]);
    if (filled == count && !(logit > values[filled - 1])) continue;
    int at = filled < count ? filled++ : count - 1;
    for (; at > 0 && logit > values[at - 1]; --at) {
      values[at] = values[at - 1];
      ids[at] = ids[at - 1];
    }
    values[at] = logit;
    ids[at] = i;
  }
  for (int i = 0; i < filled; ++i) values[i] = Logprob(values[i], log_sum_exp);
  std::fill(ids + filled, ids + count, -1);
  std::fill(values + filled, values + count, kExcluded);
}

}  // namespace tandem
