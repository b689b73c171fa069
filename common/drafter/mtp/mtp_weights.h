#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/drafter/mtp/mtp_file.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

// A LayerNorm's vectors in backend memory.
struct MtpNorm {
  View<const float> weight;  // [C]
  View<const float> bias;    // [C]
};

// A sidecar's tensors in backend memory, immutable after Load. Names as in the file.
struct MtpWeights {
  MtpConfig config;
  MtpNorm lh, lf0, lf1;
  MtpNorm lhd;  // null without the depth adapter
  MtpNorm le, lo, ln0, ln1, ln2;
  View<const float> dep;            // [depth, C]
  View<const float> q_norm;         // [128]
  View<const float> k_norm;         // [128]
  View<const float> x_k;            // [C]
  Matrix fproj;                     // [C, 3C]
  Matrix proj;                      // [C, 2C]
  Matrix query, gate;               // [2048, C]
  Matrix key, value;                // [512, C]
  Matrix output;                    // [C, 2048]
  Matrix ffn_key;                   // [4C, C]
  Matrix ffn_value;                 // [C, 4C]
  View<const int32_t> draft_vocab;  // [N] the entries that the draft head ranks

  // Copies `file` into `backend`, its matrices rounded to `format`. RESOURCE_EXHAUSTED, naming the
  // tensor and its size, when memory is short.
  static absl::StatusOr<MtpWeights> Load(Backend* backend, const MtpFile& file,
                                         WeightFormat format);

  // dep of depth k, counted from 1: beyond the trained depth the last row again.
  View<const float> DepthRow(int k) const;
};

}  // namespace tandem
