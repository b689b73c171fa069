#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/weights.h"
#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

// One layer's weights as its ops read them; C, D, F as in ModelConfig.
struct LayerWeights {
  View<const float> ln1_weight, ln1_bias, ln2_weight, ln2_bias;  // [C]
  View<const float> att_mix;                 // [6, C]: x_r, x_w, x_k, x_v, x_a, x_g
  View<const float> ffn_mix;                 // [C]
  View<const float> w0, a0, v0;              // [C]; v0 empty in layer 0
  View<const float> k_k, k_a, r_k;           // [C]
  View<const float> ln_x_weight, ln_x_bias;  // [C]
  Matrix receptance, key, value, output;     // [C, C]
  Matrix w1, a1, v1, g1;                     // [D, C]; v1 without rows in layer 0
  Matrix w2, a2, v2, g2;                     // [C, D]; v2 without rows in layer 0
  Matrix ffn_key;                            // [F, C]
  Matrix ffn_value;                          // [C, F]
};

struct ModelWeights::Layers {
  std::vector<LayerWeights> layers;              // [L]
  View<const float> ln_out_weight, ln_out_bias;  // [C]
};

struct ModelWeights::Parts {
  Backend* backend = nullptr;
  ModelConfig config;
  uint64_t hash = 0;
  std::string name;
  const float* embedding = nullptr;  // [V, C]
  Matrix head;                       // [V, C]
  ExportHandle embedding_handle;
  ExportHandle head_handle;
  Layers layers;
};

}  // namespace tandem
