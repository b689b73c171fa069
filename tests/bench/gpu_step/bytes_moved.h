#pragma once

#include <string>
#include <vector>

#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_file.h"
#include "common/model/config.h"
#include "kernels/linear/linear.h"

namespace tandem {

// Bytes per weight, scales of a matrix row not counted.
inline double BytesPerWeight(WeightFormat format) {
  if (format == WeightFormat::kBf16) return 2.0;
  return format == WeightFormat::kInt6 ? 6.25 / 8.0 : 1.0;
}

// An op of a pass or round, all layers or depths together, and the least that it moves.
struct OpBytes {
  std::string op;
  double bytes = 0;
};

inline double SumOf(const std::vector<OpBytes>& ops) {
  double sum = 0;
  for (const OpBytes& op : ops) sum += op.bytes;
  return sum;
}

// Of a pass. Per layer: att.{receptance,key,value,output} and ffn.key of 8 C^2 weights, the `live`
// share of the 4 C^2 weights of ffn.value (with int6 all of its scales), low-rank factors of 2 C
// per rank and 19 C vector entries in bf16; layer 0 has no v factors. Once: the head in bf16, and
// per lane the fp32 state of 64 C per layer, read and written, and its embedding row.
inline std::vector<OpBytes> StepBytes(const ModelConfig& config, WeightFormat format, int lanes,
                                      double live) {
  const double c = config.width, layers = config.layers, square = c * c * BytesPerWeight(format);
  const double ranks = config.decay_rank + config.icl_rank + config.value_rank + config.gate_rank;
  const double scales = format == WeightFormat::kInt6 ? 4 * c * c * (1 - live) * 0.25 / 8 : 0.0;
  const double factors = (layers * ranks - config.value_rank) * c * 2;
  return {{"Embed", lanes * c * 4},
          {"TimeMixIn", layers * (3 * square + 8 * c * 2) + factors},
          {"TimeMixCore", layers * (8 * c * 2 + lanes * 64 * c * 4 * 2) + factors},
          {"TimeMixOut", layers * square},
          {"ChannelMixKey", layers * (4 * square + 3 * c * 2)},
          {"ChannelMixValue", layers * (4 * square * live + scales)},
          {"Head", c * config.vocab * 2}};
}

// Of a draft round: every depth reads proj, attention, ffn.key, the `live` share of ffn.value and
// the draft head; the first also fproj.
inline std::vector<OpBytes> DraftBytes(const ModelConfig& config, WeightFormat format, int drafts,
                                       double live) {
  const double c = config.width, each = BytesPerWeight(format);
  const double attention = (3 * kMtpQueryHeads + 2 * kMtpKeyHeads) * kMtpHeadWidth;
  const double head = config.vocab / 4 < kMtpDraftVocab ? config.vocab / 4 : kMtpDraftVocab;
  return {{"DraftFuse", (drafts * 2 + 3) * c * c * each},
          {"Attend", drafts * attention * c * each},
          {"DraftMix", drafts * (4 + 4 * live) * c * c * each},
          {"DraftHead", drafts * head * c * each}};
}

}  // namespace tandem
