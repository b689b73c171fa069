#include "common/drafter/mtp/mtp_weights.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_synthetic.h"
#include "common/model/no_memory.h"

namespace tandem {
namespace {

constexpr char kSmaller[] = "use a smaller format with --draft-weights";

// Copies tensors one by one and remembers the first failure.
class Loader final {
 public:
  Loader(Backend* backend, const MtpFile& file, WeightFormat format)
      : backend_(backend), file_(file), format_(format) {}

  const absl::Status& status() const { return status_; }

  View<const float> Vector(const std::string& name) {
    const std::vector<float> host = file_.ReadFp32(name);
    auto* memory = static_cast<float*>(Allocate(name, host.size() * sizeof(float)));
    if (memory == nullptr) return {};
    backend_->CopyIn(memory, host.data(), host.size() * sizeof(float));
    return {memory, host.size()};
  }

  MtpNorm Norm(const std::string& stem) {
    return {.weight = Vector(stem + ".weight"), .bias = Vector(stem + ".bias")};
  }

  Matrix Linear(const std::string& name, bool sparse_inputs = false) {
    const std::vector<int64_t>& shape = file_.Shape(name);
    Matrix matrix = {.format = format_,
                     .rows = static_cast<int>(shape[0]),
                     .cols = static_cast<int>(shape[1]),
                     .sparse_inputs = sparse_inputs};
    std::vector<uint16_t> host(static_cast<size_t>(matrix.rows) * matrix.cols);
    file_.CopyBf16(name, absl::MakeSpan(host));
    void* memory = Allocate(name, backend_->PackedBytes(matrix));
    if (memory != nullptr && !backend_->Pack(memory, matrix, host.data()))
      status_.Update(NoMemoryToPack(*backend_, name, matrix, kSmaller));
    matrix.data = memory;
    return matrix;
  }

  View<const int32_t> DraftVocab() {
    const std::vector<int32_t>& ids = file_.draft_vocab();
    const size_t count = std::min<size_t>(ids.size(), kMtpDraftVocab);
    auto* memory = static_cast<int32_t*>(Allocate("draft_vocab", count * sizeof(int32_t)));
    if (memory == nullptr) return {};
    backend_->CopyIn(memory, ids.data(), count * sizeof(int32_t));
    return {memory, count};
  }

 private:
  void* Allocate(const std::string& name, size_t bytes) {
    void* memory = status_.ok() ? backend_->Allocate(bytes) : nullptr;
    if (memory == nullptr && status_.ok()) {
      status_ = absl::ResourceExhaustedError(
          absl::StrCat("no memory for sidecar tensor ", name, " of ", file_.folder(), ": ", bytes,
                       " bytes on the ", backend_->name(), " backend; ", kSmaller));
    }
    return memory;
  }

  Backend* backend_;
  const MtpFile& file_;
  WeightFormat format_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<MtpWeights> MtpWeights::Load(Backend* backend, const MtpFile& file,
                                            WeightFormat format) {
  if (file.synthetic() != nullptr) {
    SyntheticMtp mtp = *file.synthetic();
    mtp.format = format;
    return MakeSyntheticMtp(backend, mtp);
  }
  Loader loader(backend, file, format);
  MtpWeights w{.config = file.config(),
               .lh = loader.Norm("lh"),
               .lf0 = loader.Norm("lf.0"),
               .lf1 = loader.Norm("lf.1"),
               .lhd = file.config().depth_adapter ? loader.Norm("lhd") : MtpNorm{},
               .le = loader.Norm("le"),
               .lo = loader.Norm("lo"),
               .ln0 = loader.Norm("blk.ln0"),
               .ln1 = loader.Norm("blk.ln1"),
               .ln2 = loader.Norm("blk.ln2"),
               .dep = loader.Vector("dep"),
               .q_norm = loader.Vector("attn.q_norm.weight"),
               .k_norm = loader.Vector("attn.k_norm.weight"),
               .x_k = loader.Vector("blk.ffn.x_k"),
               .fproj = loader.Linear("fproj.weight"),
               .proj = loader.Linear("proj.weight"),
               .query = loader.Linear("attn.q.weight"),
               .gate = loader.Linear("attn.g.weight"),
               .key = loader.Linear("attn.k.weight"),
               .value = loader.Linear("attn.v.weight"),
               .output = loader.Linear("attn.o.weight"),
               .ffn_key = loader.Linear("blk.ffn.key.weight"),
               .ffn_value = loader.Linear("blk.ffn.value.weight", /*sparse_inputs=*/true),
               .draft_vocab = loader.DraftVocab()};
  RETURN_IF_ERROR(loader.status());
  return w;
}

View<const float> MtpWeights::DepthRow(int k) const {
  const size_t c = static_cast<size_t>(config.width);
  return dep.Sub((std::min(k, config.depth) - 1) * c, c);
}

}  // namespace tandem
