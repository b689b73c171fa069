#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/model/config.h"
#include "common/model/model_path.h"
#include "common/model/quantised.h"
#include "common/model/tensor_file.h"

namespace tandem {

struct TensorRule;

// One part of a model for reports: "embedding and head", "matrices", "low-rank", "vectors and
// norms".
struct WeightsComponent {
  std::string name;
  int64_t parameters = 0;
  std::string dtype;  // of the file: "bf16", "fp8", or "bf16+fp8" when mixed
  // In backend memory when loaded as the file is, besides padding: matrices and factors in 2 bytes
  // or their own format, vectors and the embedding in 4.
  int64_t loaded_bytes = 0;
};

// A checkpoint that has been checked as a whole: an RWKV-7 model with every tensor present, of the
// right shape, finite and of a type that this build computes with. Whatever the layout of the file
// (.pth names, official names, fla names), tensors are addressed by their .pth name and have the
// shape of the .pth layout, without axes of size 1:
//   emb.weight, head.weight [V, C]; blocks.0.ln0.{weight,bias}, blocks.i.{ln1,ln2}.{weight,bias},
//   ln_out.{...} [C] blocks.i.att.{x_r,x_w,x_k,x_v,x_a,x_g,w0,a0,v0,k_k,k_a} [C]; blocks.i.att.r_k
//   [H, 64] blocks.i.att.{w1,a1,v1,g1} [C, D]; blocks.i.att.{w2,a2,v2,g2} [D, C]
//   blocks.i.att.{receptance,key,value,output}.weight [C, C]; blocks.i.att.ln_x.{weight,bias} [C]
//   blocks.i.ffn.x_k [C]; blocks.i.ffn.key.weight [4C, C]; blocks.i.ffn.value.weight [C, 4C]
// Layer 0 has no v0, v1, v2: the file's are never read. blocks.0.ln0 is absent when
// config().embedding_normed.
class WeightsSource final {
 public:
  // `path`: see ResolveModelPath. The whole file is read once (finiteness, hash). Errors name file,
  // tensor, what was found and what was expected.
  static absl::StatusOr<std::unique_ptr<WeightsSource>> Open(const std::string& path);
  WeightsSource(const WeightsSource&) = delete;
  WeightsSource& operator=(const WeightsSource&) = delete;

  const ModelConfig& config() const { return config_; }
  // checkpoint, folder, name, vocabulary.
  const ModelPath& path() const { return path_; }
  const std::string& name() const { return path_.name; }
  // XXH3 over canonical names, shapes, types and values: equal for the same model in any layout.
  uint64_t content_hash() const { return content_hash_; }
  // Parameters that the forward pass reads.
  int64_t parameter_count() const { return parameter_count_; }
  const std::vector<WeightsComponent>& components() const { return components_; }

  // Canonical names, sorted.
  std::vector<std::string> names() const;
  bool Has(absl::string_view name) const;
  // Those below CHECK that the tensor exists.
  const std::vector<int64_t>& Shape(absl::string_view name) const;
  DType dtype(absl::string_view name) const;  // in the file; of a quantised matrix, of its codes
  // Of a matrix that the file has quantised its format; Bf16 for every other tensor.
  WeightFormat format(absl::string_view name) const;
  // The values of a quantised matrix (CHECKed) as they are.
  StoredCodes Codes(absl::string_view name) const;
  // Matrices of fp8 that were rounded to integers first, so that weights below 1.8 % of a matrix's
  // or output's largest have lost precision.
  int integer_rounded() const { return integer_rounded_; }
  // The rest is for tensors that are not quantised (CHECKed).
  std::vector<float> ReadFp32(absl::string_view name) const;  // row-major, Shape(name)
  // Copies into `out`, whose size must be the product of Shape(name) (CHECKed). bf16 bits: exact
  // from bf16, rounded to nearest even from fp16 and fp32.
  void CopyFp32(absl::string_view name, absl::Span<float> out) const;
  void CopyBf16(absl::string_view name, absl::Span<uint16_t> out) const;

 private:
  struct Entry {
    MatrixTensors found = {};
    QuantisedMatrix stored;
    const TensorInfo* info = nullptr;  // stored.codes
    const TensorRule* rule = nullptr;
    int layer = -1;  // -1 for a tensor of the model
    bool transpose = false;
    std::vector<int64_t> shape;  // canonical
  };
  WeightsSource(ModelPath path, std::unique_ptr<TensorFile> file);
  // The steps of Open, in this order.
  absl::Status MapNames();
  absl::Status AssembleMatrices();
  absl::Status CheckPresent();
  absl::Status DeriveConfig();
  absl::Status CheckShapes() const;
  void DropUnread();
  absl::Status ReadValues();

  const Entry& Get(absl::string_view name) const;

  ModelPath path_;
  std::unique_ptr<TensorFile> file_;
  std::map<std::string, Entry> entries_;
  ModelConfig config_;
  uint64_t content_hash_ = 0;
  int64_t parameter_count_ = 0;
  int integer_rounded_ = 0;
  std::vector<WeightsComponent> components_;
};

}  // namespace tandem
