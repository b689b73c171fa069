#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "kernels/random/random.h"
#include "kernels/view.h"

namespace tandem {

// Standard deviation and mean of a tensor's numbers.
struct Spread {
  double scale = 1.0;
  double mean = 0.0;
};

// How channel mixing, or a drafter's block, gets its zero activations. The pre-activation of neuron
// n is W[n]·m with m = z + (z_prev - z) x_k, z = LayerNorm(x) of weight 1 and bias b = 0.5. The
// normalised part of m is orthogonal to (1, ..., 1) and has a norm of about sqrt(C), as x_k = 0.05
// is small; the bias adds 0.5 (1, ..., 1). With W[n] random of variance 1 / C and mean -t over all
// its inputs, the pre-activations of one token are normal over the neurons with variance 1 + b^2
// and mean -t b C. So the share z of them is zero when
//   t = Phi^-1(z) sqrt(1 + b^2) / (b C).
// Which ones changes from token to token, as it does in text.
inline constexpr double kSyntheticMixBias = 0.5;
inline constexpr double kSyntheticMixShift = 0.05;
Spread ChannelMixKeySpread(int width, double zero_share);

// The fill of a tensor that a seed has only one of, by the tensor's number.
RandomFill FillOfTensor(uint64_t seed, uint64_t tensor, Spread spread);

// Lays random weights out in one piece of backend memory. Walked twice in the same order: without
// memory it only measures, with memory it fills.
class SyntheticArena final {
 public:
  SyntheticArena(Backend* backend, uint64_t seed, void* memory)
      : backend_(backend), seed_(seed), memory_(static_cast<uint8_t*>(memory)) {}

  size_t bytes() const { return used_; }
  // RESOURCE_EXHAUSTED, naming the first of them, when matrices could not be packed.
  const absl::Status& status() const { return status_; }

  // [count]
  View<const float> Vector(size_t count, Spread spread);
  // As `shape` says, without its data.
  Matrix Pack(Matrix shape, Spread spread);
  // For inputs of variance 1 and outputs of variance gain^2.
  Matrix Projection(const Matrix& shape, double gain = 1.0);
  // [rows, cols].
  Matrix Projection(WeightFormat format, int rows, int cols, double gain = 1.0,
                    bool sparse_inputs = false);
  // Backend memory of that size, null while measuring.
  void* Take(size_t bytes);

 private:
  Backend* backend_;
  uint64_t seed_;
  uint64_t tensors_ = 0;
  uint8_t* memory_;
  size_t used_ = 0;
  absl::Status status_;
};

}  // namespace tandem
