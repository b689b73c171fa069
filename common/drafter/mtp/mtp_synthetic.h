#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/drafter/mtp/mtp_weights.h"
#include "common/model/config.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"

namespace tandem {

// A sidecar that nobody trained, for timing real sizes without a file: its drafts are noise.
struct SyntheticMtp {
  ModelConfig base;
  std::string base_name = "synthetic";
  WeightFormat format = WeightFormat::kBf16;  // of all matrices
  double zero_share = 0.85;  // of relu^2 activations, [0, 1); see ChannelMixKeySpread
  uint64_t seed = 2;
};

// What the mtp.json of one would say.
MtpConfig SyntheticMtpConfig(const SyntheticMtp& mtp);

// Of the matrices; there is hardly more.
int64_t SyntheticMtpParameters(int width);

// The draft vocabulary is a quarter of the base model's: 16384 of 65536 entries, spread evenly.
// RESOURCE_EXHAUSTED, with the size, when memory is short.
absl::StatusOr<MtpWeights> MakeSyntheticMtp(Backend* backend, const SyntheticMtp& mtp);

}  // namespace tandem
