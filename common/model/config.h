#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem {

inline constexpr int kHeadSize = 64;  // N

// The dimensions of one RWKV-7 model, read from the shapes of its tensors.
struct ModelConfig {
  int layers = 0;      // L
  int width = 0;       // C
  int heads = 0;       // H = C / 64
  int ffn = 0;         // F = 4C
  int vocab = 0;       // V: rows of emb and of head
  int decay_rank = 0;  // Dw: w1 [C, Dw], w2 [Dw, C]
  int icl_rank = 0;    // Da: a1 [C, Da], a2 [Da, C]
  int value_rank = 0;  // Dv: v1 [C, Dv], v2 [Dv, C]; 0 when the only layer is layer 0
  int gate_rank = 0;   // Dg: g1 [C, Dg], g2 [Dg, C]
  // emb already holds LN0(emb): the embedding norm must not be applied again.
  bool embedding_normed = false;
};

// Whether a Hugging Face config.json says that the embedding already holds LN0(emb).
// INVALID_ARGUMENT naming the file when it is not a JSON object.
absl::StatusOr<bool> HfEmbeddingNormed(const std::string& path);

// Compares a Hugging Face config.json with the dimensions that the shapes gave and with what RWKV-7
// fixes (head size, eps, activation, ...). An absent key, and null for a dimension, says nothing; a
// contradiction is INVALID_ARGUMENT naming file, key, found and expected.
absl::Status CheckHfConfig(const std::string& path, const ModelConfig& config);

}  // namespace tandem
