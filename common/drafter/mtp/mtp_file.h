#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/drafter/mtp/mtp_config.h"
#include "common/model/tensor_file.h"

namespace tandem {

inline constexpr int kMtpQueryHeads = 16;
inline constexpr int kMtpKeyHeads = 4;
inline constexpr int kMtpHeadWidth = 128;

struct SyntheticMtp;

// One checked MTP sidecar. Tensors (all Linear layout [out, in], no bias):
//   lh, lf.0, lf.1, lhd, le, lo, blk.ln0, blk.ln1, blk.ln2 .{weight,bias} [C]   (a bias absent in
//   the file is zero) fproj.weight [C, 3C]; proj.weight [C, 2C]; dep [depth, C] attn.{q,g}.weight
//   [2048, C]; attn.{k,v}.weight [512, C]; attn.o.weight [C, 2048]; attn.{q,k}_norm.weight [128]
//   blk.ffn.x_k [C]; blk.ffn.key.weight [4C, C]; blk.ffn.value.weight [C, 4C]
class MtpFile final {
 public:
  // Reads mtp.json and mtp.safetensors of `folder`. FAILED_PRECONDITION, naming both models and
  // sizes, when the sidecar belongs to another base model; `force` turns a different name or layer
  // count into a warning. INVALID_ARGUMENT for a sidecar that is damaged or of another format;
  // NOT_FOUND for a missing file.
  static absl::StatusOr<std::unique_ptr<MtpFile>> Open(const std::string& folder,
                                                       const MtpBase& base, bool force);
  // Stands for one that nobody trained: without tensors, names and draft vocabulary, which
  // MtpWeights::Load makes.
  static std::unique_ptr<MtpFile> Synthetic(const SyntheticMtp& mtp);
  ~MtpFile();
  MtpFile(const MtpFile&) = delete;
  MtpFile& operator=(const MtpFile&) = delete;

  const MtpConfig& config() const { return config_; }
  const std::string& folder() const { return folder_; }
  // Null for one that was read.
  const SyntheticMtp* synthetic() const { return synthetic_.get(); }
  // [M] base token ids, most frequent first; M >= 1, unique, below base.vocab.
  const std::vector<int32_t>& draft_vocab() const { return draft_vocab_; }
  // Not empty when forcing let a mismatch pass: one line per mismatch.
  const std::vector<std::string>& warnings() const { return warnings_; }
  int64_t parameter_count() const { return parameter_count_; }
  // XXH3 over names, shapes, types and values.
  uint64_t content_hash() const { return content_hash_; }

  // Canonical names, sorted; biases that are zero by absence are included.
  std::vector<std::string> names() const;
  bool Has(absl::string_view name) const;
  // The rest CHECK that the tensor exists, and that `out` has its size.
  const std::vector<int64_t>& Shape(absl::string_view name) const;
  std::vector<float> ReadFp32(absl::string_view name) const;
  void CopyFp32(absl::string_view name, absl::Span<float> out) const;
  // bf16 bits: exact from bf16, rounded to nearest even from fp16 and fp32.
  void CopyBf16(absl::string_view name, absl::Span<uint16_t> out) const;

 private:
  struct Entry {
    const TensorInfo* info = nullptr;  // null: zeros
    std::vector<int64_t> shape;
  };
  MtpFile(std::string folder, MtpConfig config, std::unique_ptr<TensorFile> file);
  absl::Status CheckTensors(int width);
  absl::Status ReadDraftVocab(int vocab);
  absl::Status ReadValues();
  const Entry& Get(absl::string_view name) const;

  std::string folder_;
  MtpConfig config_;
  std::unique_ptr<TensorFile> file_;
  std::unique_ptr<SyntheticMtp> synthetic_;
  std::map<std::string, Entry> entries_;
  std::vector<int32_t> draft_vocab_;
  std::vector<std::string> warnings_;
  int64_t parameter_count_ = 0;
  uint64_t content_hash_ = 0;
};

}  // namespace tandem
