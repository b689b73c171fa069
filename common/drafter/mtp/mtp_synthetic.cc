#include "common/drafter/mtp/mtp_synthetic.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp.h"
#include "common/model/synthetic_arena.h"

namespace tandem {
namespace {

constexpr int kDepth = 3;

MtpNorm Norm(SyntheticArena& arena, size_t width, Spread weight, Spread bias) {
  MtpNorm norm;
  norm.weight = arena.Vector(width, weight);
  norm.bias = arena.Vector(width, bias);
  return norm;
}
MtpNorm Norm(SyntheticArena& arena, size_t width) {
  return Norm(arena, width, {.scale = 0.1, .mean = 1.0}, {.scale = 0.05});
}

void PlaceVectors(SyntheticArena& arena, MtpWeights& w) {
  const size_t width = static_cast<size_t>(w.config.width);
  for (MtpNorm* norm : {&w.lh, &w.lf0, &w.lf1, &w.lhd, &w.le, &w.lo, &w.ln0, &w.ln1})
    *norm = Norm(arena, width);
  w.ln2 =
      Norm(arena, width, {.scale = 0.0, .mean = 1.0}, {.scale = 0.0, .mean = kSyntheticMixBias});
  w.dep = arena.Vector(kDepth * width, {.scale = 0.1});
  w.q_norm = arena.Vector(kMtpHeadWidth, {.scale = 0.1, .mean = 1.0});
  w.k_norm = arena.Vector(kMtpHeadWidth, {.scale = 0.1, .mean = 1.0});
  w.x_k = arena.Vector(width, {.scale = 0.0, .mean = kSyntheticMixShift});
}

void PlaceMatrices(SyntheticArena& arena, const SyntheticMtp& mtp, MtpWeights& w) {
  constexpr int kQueries = kMtpQueryHeads * kMtpHeadWidth;
  constexpr int kKeys = kMtpKeyHeads * kMtpHeadWidth;
  const WeightFormat format = mtp.format;
  const int c = w.config.width;
  const int f = 4 * c;
  w.fproj = arena.Projection(format, c, 3 * c);
  w.proj = arena.Projection(format, c, 2 * c);
  w.query = arena.Projection(format, kQueries, c);
  w.gate = arena.Projection(format, kQueries, c);
  w.key = arena.Projection(format, kKeys, c);
  w.value = arena.Projection(format, kKeys, c);
  w.output = arena.Projection(format, c, kQueries);
  w.ffn_key =
      arena.Pack({.format = format, .rows = f, .cols = c}, ChannelMixKeySpread(c, mtp.zero_share));
  w.ffn_value = arena.Projection(format, c, f, 2.0, /*sparse_inputs=*/true);
}

// Everything but the values of the draft vocabulary, whose memory is the result.
int32_t* Place(SyntheticArena& arena, const SyntheticMtp& mtp, size_t choices, MtpWeights& w) {
  PlaceVectors(arena, w);
  PlaceMatrices(arena, mtp, w);
  auto* const ids = static_cast<int32_t*>(arena.Take(choices * sizeof(int32_t)));
  w.draft_vocab = {ids, choices};
  return ids;
}

}  // namespace

MtpConfig SyntheticMtpConfig(const SyntheticMtp& mtp) {
  const ModelConfig& base = mtp.base;
  return {.base_model = mtp.base_name,
          .layers = base.layers,
          .width = base.width,
          .fuse_layers = {base.layers / 3, base.layers * 2 / 3},
          .depth = kDepth,
          .depth_adapter = true,
          .window = kMtpMaxWindow,
          .target = "none"};
}

int64_t SyntheticMtpParameters(int width) {
  const int64_t c = width;
  constexpr int64_t kAttention = (3 * kMtpQueryHeads + 2 * kMtpKeyHeads) * kMtpHeadWidth;
  return (3 + 2 + 2 * 4) * c * c + kAttention * c;
}

absl::StatusOr<MtpWeights> MakeSyntheticMtp(Backend* backend, const SyntheticMtp& mtp) {
  if (!(mtp.zero_share >= 0.0 && mtp.zero_share < 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a zero share of ", mtp.zero_share, ": must be from 0 to below 1"));
  }
  const size_t choices = static_cast<size_t>(std::min(kMtpDraftVocab, mtp.base.vocab / 4));
  MtpWeights weights = {.config = SyntheticMtpConfig(mtp)};
  SyntheticArena measure(backend, mtp.seed, nullptr);
  Place(measure, mtp, choices, weights);
  void* const memory = backend->Allocate(measure.bytes());
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a synthetic sidecar: ", measure.bytes(), " bytes on the ",
                     backend->name(), " backend"));
  }
  SyntheticArena arena(backend, mtp.seed, memory);
  int32_t* const to = Place(arena, mtp, choices, weights);
  RETURN_IF_ERROR(arena.status());
  std::vector<int32_t> ids(choices);
  const int step = mtp.base.vocab / static_cast<int>(choices);
  for (size_t i = 0; i < choices; ++i) ids[i] = static_cast<int32_t>(i) * step;
  backend->CopyIn(to, ids.data(), choices * sizeof(int32_t));
  return weights;
}

}  // namespace tandem
