#include "common/drafter/mtp/mtp_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp_synthetic.h"
#include "common/model/layout.h"
#include "common/model/tensor_convert.h"

namespace tandem {
namespace {

constexpr char kDraftVocab[] = "draft_vocab";

absl::Status Refuse(const std::string& file, absl::string_view tensor, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": tensor ", tensor, ": ", problem));
}

// Name -> shape of every tensor but draft_vocab.
std::map<std::string, std::vector<int64_t>> ExpectedTensors(int64_t width,
                                                            const MtpConfig& config) {
  constexpr int64_t kQuery = kMtpQueryHeads * kMtpHeadWidth;
  constexpr int64_t kKey = kMtpKeyHeads * kMtpHeadWidth;
  std::map<std::string, std::vector<int64_t>> tensors = {
      {"fproj.weight", {width, 3 * width}},
      {"proj.weight", {width, 2 * width}},
      {"dep", {config.depth, width}},
      {"attn.q.weight", {kQuery, width}},
      {"attn.k.weight", {kKey, width}},
      {"attn.v.weight", {kKey, width}},
      {"attn.g.weight", {kQuery, width}},
      {"attn.o.weight", {width, kQuery}},
      {"attn.q_norm.weight", {kMtpHeadWidth}},
      {"attn.k_norm.weight", {kMtpHeadWidth}},
      {"blk.ffn.x_k", {width}},
      {"blk.ffn.key.weight", {4 * width, width}},
      {"blk.ffn.value.weight", {width, 4 * width}},
  };
  std::vector<std::string> norms = {"lh", "lf.0",    "lf.1",    "le",
                                    "lo", "blk.ln0", "blk.ln1", "blk.ln2"};
  if (config.depth_adapter) norms.push_back("lhd");
  for (const std::string& norm : norms) {
    tensors[norm + ".weight"] = {width};
    tensors[norm + ".bias"] = {width};
  }
  return tensors;
}

// The bias of a LayerNorm may be absent; no other tensor ends so.
bool IsBias(absl::string_view name) { return absl::EndsWith(name, ".bias"); }

}  // namespace

MtpFile::MtpFile(std::string folder, MtpConfig config, std::unique_ptr<TensorFile> file)
    : folder_(std::move(folder)), config_(std::move(config)), file_(std::move(file)) {}

MtpFile::~MtpFile() = default;

std::unique_ptr<MtpFile> MtpFile::Synthetic(const SyntheticMtp& mtp) {
  std::unique_ptr<MtpFile> file(new MtpFile("", SyntheticMtpConfig(mtp), nullptr));
  Hasher hasher;
  hasher.Update(absl::StrCat(mtp.base_name, "/", mtp.zero_share, "/", mtp.seed));
  file->content_hash_ = hasher.Digest();
  file->parameter_count_ = SyntheticMtpParameters(mtp.base.width);
  file->synthetic_ = std::make_unique<SyntheticMtp>(mtp);
  return file;
}

absl::StatusOr<std::unique_ptr<MtpFile>> MtpFile::Open(const std::string& folder,
                                                       const MtpBase& base, bool force) {
  const std::filesystem::path path(folder);
  ASSIGN_OR_RETURN(MtpConfig config, ReadMtpConfig((path / "mtp.json").string()));
  ASSIGN_OR_RETURN(auto warnings, MatchMtp(config, base, force, folder));
  ASSIGN_OR_RETURN(auto file, TensorFile::Open((path / "mtp.safetensors").string()));
  std::unique_ptr<MtpFile> mtp(new MtpFile(folder, std::move(config), std::move(file)));
  mtp->warnings_ = std::move(warnings);
  RETURN_IF_ERROR(mtp->CheckTensors(base.width));
  RETURN_IF_ERROR(mtp->ReadDraftVocab(base.vocab));
  RETURN_IF_ERROR(mtp->ReadValues());
  return mtp;
}

absl::Status MtpFile::CheckTensors(int width) {
  const auto expected = ExpectedTensors(width, config_);
  for (const TensorInfo& info : file_->tensors()) {
    if (info.name == kDraftVocab) continue;
    absl::string_view name = info.name;
    if (absl::StartsWith(name, "blk.attn.")) absl::ConsumePrefix(&name, "blk.");
    const auto rule = expected.find(std::string(name));
    if (rule == expected.end()) {
      const bool adapter = absl::StartsWith(name, "lhd.");
      return Refuse(info.file, info.name,
                    adapter ? "present; expected none, since meta.dd is false"
                            : "a sidecar has no tensor of this name; expected none");
    }
    // Only per-channel vectors may have leading axes of size 1.
    const std::vector<int64_t>& shape = rule->second;
    if ((shape.size() == 1 ? Squeeze(info.shape, 1) : info.shape) != shape) {
      return Refuse(
          info.file, info.name,
          absl::StrCat("shape ", ShapeString(info.shape), "; expected ", ShapeString(shape)));
    }
    if (!IsLoadable(info.dtype)) {
      return Refuse(info.file, info.name,
                    absl::StrCat("type ", DTypeName(info.dtype), "; expected bf16, fp16 or fp32"));
    }
    const auto [entry, inserted] =
        entries_.emplace(rule->first, Entry{.info = &info, .shape = shape});
    if (!inserted) {
      return Refuse(info.file, info.name,
                    absl::StrCat("is the same as ", entry->second.info->name, "; expected one"));
    }
  }
  for (const auto& [name, shape] : expected) {
    if (entries_.count(name) > 0) continue;
    if (!IsBias(name)) {
      return Refuse(file_->path(), name,
                    absl::StrCat("missing; expected with shape ", ShapeString(shape)));
    }
    entries_[name] = {.info = nullptr, .shape = shape};
  }
  return absl::OkStatus();
}

absl::Status MtpFile::ReadDraftVocab(int vocab) {
  const TensorInfo* info = file_->Find(kDraftVocab);
  if (info == nullptr) return Refuse(file_->path(), kDraftVocab, "missing; expected [M] of int64");
  if (info->dtype != DType::kInt64 || info->shape.size() != 1 || info->shape[0] < 1) {
    return Refuse(info->file, info->name,
                  absl::StrCat(DTypeName(info->dtype), " of shape ", ShapeString(info->shape),
                               "; expected int64 of shape [M] with M of at least 1"));
  }
  std::vector<bool> seen(static_cast<size_t>(vocab), false);
  for (int64_t row = 0; row < info->shape[0]; ++row) {
    int64_t id;
    std::memcpy(&id, info->bytes.data() + row * static_cast<int64_t>(sizeof(id)), sizeof(id));
    if (id < 0 || id >= vocab) {
      return Refuse(info->file, info->name,
                    absl::StrCat("row ", row, " is token ", id, "; expected 0 to ", vocab - 1,
                                 ", the vocabulary of the base model"));
    }
    if (seen[static_cast<size_t>(id)]) {
      return Refuse(info->file, info->name,
                    absl::StrCat("row ", row, " repeats token ", id, "; expected it once"));
    }
    seen[static_cast<size_t>(id)] = true;
    draft_vocab_.push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status MtpFile::ReadValues() {
  Hasher hasher;
  for (const auto& [name, entry] : entries_) {
    if (entry.info == nullptr) continue;
    RETURN_IF_ERROR(CheckFinite(*entry.info));
    parameter_count_ +=
        static_cast<int64_t>(entry.info->bytes.size() / DTypeSize(entry.info->dtype));
    hasher.Update(
        absl::StrCat(name, " ", DTypeName(entry.info->dtype), " ", ShapeString(entry.shape), ";"));
    hasher.Update(entry.info->bytes);
  }
  hasher.Update(absl::StrCat(kDraftVocab, " [", draft_vocab_.size(), "];"));
  hasher.Update(file_->Find(kDraftVocab)->bytes);
  content_hash_ = hasher.Digest();
  return absl::OkStatus();
}

const MtpFile::Entry& MtpFile::Get(absl::string_view name) const {
  const auto found = entries_.find(std::string(name));
  CHECK(found != entries_.end()) << "no tensor " << name;
  return found->second;
}

bool MtpFile::Has(absl::string_view name) const { return entries_.count(std::string(name)) > 0; }

std::vector<std::string> MtpFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const std::vector<int64_t>& MtpFile::Shape(absl::string_view name) const { return Get(name).shape; }

std::vector<float> MtpFile::ReadFp32(absl::string_view name) const {
  size_t count = 1;
  for (int64_t axis : Shape(name)) count *= static_cast<size_t>(axis);
  std::vector<float> values(count);
  CopyFp32(name, absl::MakeSpan(values));
  return values;
}

void MtpFile::CopyFp32(absl::string_view name, absl::Span<float> out) const {
  const Entry& entry = Get(name);
  if (entry.info != nullptr) return ConvertToFp32(*entry.info, /*transpose=*/false, out);
  CHECK_EQ(static_cast<int64_t>(out.size()), entry.shape[0]);
  std::fill(out.begin(), out.end(), 0.0f);
}

void MtpFile::CopyBf16(absl::string_view name, absl::Span<uint16_t> out) const {
  const Entry& entry = Get(name);
  if (entry.info != nullptr) return ConvertToBf16(*entry.info, /*transpose=*/false, out);
  CHECK_EQ(static_cast<int64_t>(out.size()), entry.shape[0]);
  std::fill(out.begin(), out.end(), uint16_t{0});
}

}  // namespace tandem
