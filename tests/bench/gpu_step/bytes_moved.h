#pragma once

#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_file.h"
#include "common/model/config.h"
#include "kernels/linear/linear.h"

namespace tandem {

// What a GPU of this kind reads at most, measured with a kernel that only reads.
inline constexpr double kH200ReadBytesPerSecond = 4540e9;

// Bytes per weight, scales of a matrix row not counted.
inline double BytesPerWeight(WeightFormat format) {
  if (format == WeightFormat::kBf16) return 2.0;
  return format == WeightFormat::kInt6 ? 6.25 / 8.0 : 1.0;
}

// The least that a pass moves. Per layer: att.{receptance,key,value,output} and ffn.key of 8 C^2
// weights, the `live` share of the 4 C^2 weights of ffn.value (with int6 all of its scales),
// low-rank factors of 2 C per rank and 19 C vector entries in bf16. Once: the head in bf16, and
// per lane the fp32 state of 64 C per layer, read and written, and its embedding row.
inline double StepBytes(const ModelConfig& config, WeightFormat format, int lanes, double live) {
  const double c = config.width, each = BytesPerWeight(format);
  const double ranks = config.decay_rank + config.icl_rank + config.value_rank + config.gate_rank;
  const double scales = format == WeightFormat::kInt6 ? 4 * c * c * (1 - live) * 0.25 / 8 : 0.0;
  const double layer = (8 + 4 * live) * c * c * each + scales + (2 * c * ranks + 19 * c) * 2;
  const double missing = 2 * c * config.value_rank * 2;  // layer 0 has no v factors
  const double state = config.layers * 64 * c * 4 * 2 + c * 4;
  return config.layers * layer - missing + c * config.vocab * 2 + lanes * state;
}

// The same of a draft round: every depth reads proj, attention, ffn.key, the `live` share of
// ffn.value and the draft head; the first also fproj.
inline double DraftBytes(const ModelConfig& config, WeightFormat format, int drafts, double live) {
  const double c = config.width;
  const double attention = (3 * kMtpQueryHeads + 2 * kMtpKeyHeads) * kMtpHeadWidth;
  const double head = config.vocab / 4 < kMtpDraftVocab ? config.vocab / 4 : kMtpDraftVocab;
  const double depth = (2 + 4 + 4 * live) * c * c + (attention + head) * c;
  return (drafts * depth + 3 * c * c) * BytesPerWeight(format);
}

}  // namespace tandem
