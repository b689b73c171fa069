#pragma once

#include <memory>

#include "kernels/backend.h"

namespace tandem {

// What the tests of model and drafter run on. A test program links one definition: tests/on_cpu.cc
// or tests/gpu/on_cuda.cc. `threads` as in MakeCpuBackend.
std::unique_ptr<Backend> MakeTestBackend(int threads);

// How far the backend's results may be from the golden ones, which plain fp32 arithmetic made.
struct Tolerances {
  double logits;         // of a logit, and of the log of the sum over all
  double features;       // of an element of h, m1, m2
  double shift_sum;      // of the sum over a token shift
  double wkv_sum;        // of the sum over a wkv state, as a share of the sum of absolute values
  double choice_margin;  // a logit this far below the best may be the stored choice
  double greedy_margin;  // a stored choice this close to the second best may flip
  double draft_logits;   // of a draft logit
  double draft_margin;   // a draft logit this far below the best may be the stored draft
  double accepted;       // of the number of accepted drafts, as a share; 0: equal in every step
};
Tolerances GoldenTolerances();

}  // namespace tandem
