#pragma once

#include <cstdint>
#include <vector>

#include "common/model/batch.h"
#include "common/model/rwkv7.h"
#include "kernels/backend.h"

namespace tandem {

// The memory of a pass; dimension letters as in ModelConfig, T, B and R for the largest pass.

// What the host tells a pass, in one block.
struct PassInputs {
  float** feature_rows = nullptr;  // [1], of FeatureTap
  int32_t* tokens = nullptr;       // [T]
  int32_t* offsets = nullptr;      // [B + 1]
  int32_t* slots = nullptr;        // [B]
  int32_t* provisional = nullptr;  // [B]
  int32_t* logit_rows = nullptr;   // [R]
  int32_t* row_tokens = nullptr;   // [R] token consumed by each logit row
};

struct ActivationBuffers : PassInputs {
  float* x = nullptr;                              // [T, C] residual stream
  float* h = nullptr;                              // [T, C]
  float* mixed = nullptr;                          // [6, T, C]
  float *r = nullptr, *k = nullptr, *v = nullptr;  // [T, C]
  float *w_low = nullptr, *a_low = nullptr;        // [T, Dw], [T, Da]
  float *v_low = nullptr, *g_low = nullptr;        // [T, Dv], [T, Dg]
  float* v_first = nullptr;                        // [T, C]
  float* y = nullptr;                              // [T, C]
  float* scratch = nullptr;                        // [4, T, C]
  float* act = nullptr;                            // [T, F]
  float* head_h = nullptr;                         // [R, C]
  float* logits = nullptr;                         // [R, V]

  int logit_count = 0;  // R of the last pass
};

struct Activations::Impl : ActivationBuffers {
  Backend* backend = nullptr;
  int max_rows = 0;
  int max_logit_rows = 0;
  int max_lanes = 0;
  int vocab = 0;
  std::vector<uint64_t> host_block;  // the inputs of the pass as they lie in backend memory
  PassInputs host;                   // in host_block

  void Upload(const DecodeBatch& batch, float* features);
};

}  // namespace tandem
