#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// x[t] = table[tokens[t]].
struct EmbedArgs {
  int rows = 0;                // T
  int width = 0;               // C
  View<const int32_t> tokens;  // [T], each < V
  View<const float> table;     // [V, C]: LN0(emb)
  View<float> x;               // [T, C] out
};

void EmbedCpu(const EmbedArgs& args, ThreadPool& pool);

}  // namespace tandem
