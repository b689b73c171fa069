#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/model/config.h"
#include "common/model/tensor_file.h"

namespace tandem {

// How the tensors of a file are called.
enum class Layout {
  kPth,       // emb.weight, blocks.i...
  kOfficial,  // the same behind "rwkv7.", but head.weight
  kFla,       // model.embeddings.weight, model.layers.i...; low-rank factors transposed
};

// One length of a tensor, by its letter in ModelConfig; kOne... have fixed values.
enum class Axis { kNone, kWidth, kFfn, kVocab, kHeads, kHeadWidth, kDecay, kIcl, kValue, kGate };

enum class Part { kEmbeddingAndHead, kMatrix, kLowRank, kVector };

// A tensor that RWKV-7 has: once, or once per layer.
struct TensorRule {
  absl::string_view suffix;  // "ln_out.weight", or what follows "blocks.<i>."
  absl::string_view
      fla;  // the same in the fla layout: a full name, or what follows "model.layers.<i>."
  Axis rows;
  Axis columns;  // kNone for a vector
  Part part;
  bool transposed_in_fla = false;
};

absl::Span<const TensorRule> ModelRules();
absl::Span<const TensorRule> LayerRules();

// Where a tensor of a file belongs.
struct CanonicalName {
  const TensorRule* rule = nullptr;
  int layer = -1;  // -1 for a tensor of the model
};

// "emb.weight" or "blocks.3.att.w1".
std::string PthName(const TensorRule& rule, int layer);

// The layout that the names show. INVALID_ARGUMENT when it is none or more than one.
absl::StatusOr<Layout> DetectLayout(const TensorFile& file);

// Nothing for a name that RWKV-7 does not have.
std::optional<CanonicalName> ToCanonical(Layout layout, absl::string_view name);

// Why a name shows that the file is another model or quantised by a scheme that is not read; empty
// when it does not.
absl::string_view RefusedName(absl::string_view name);

// The length of `axis`, 0 for kNone.
int AxisLength(Axis axis, const ModelConfig& config);

// `shape` without the leading axes of size 1 beyond `rank` axes.
std::vector<int64_t> Squeeze(absl::Span<const int64_t> shape, size_t rank);

}  // namespace tandem
