#include "common/model/pth/pth_reader.h"

#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/model/pth/pickle.h"
#include "common/model/pth/torch_types.h"
#include "common/model/pth/zip_directory.h"

namespace tandem {
namespace {

using Members = std::map<std::string, absl::Span<const uint8_t>>;  // by name without the root

absl::StatusOr<Members> OpenArchive(absl::Span<const uint8_t> archive, const std::string& file) {
  if (!archive.empty() && archive[0] == 0x80) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": a legacy pickle without a zip archive; load it with torch and save it again"));
  }
  ASSIGN_OR_RETURN(const auto zip, ReadZipDirectory(archive, file));
  Members members;
  std::string root;
  for (const ZipMember& member : zip) {
    const size_t slash = member.name.find('/');
    const std::string own_root = member.name.substr(0, slash);
    if (slash == std::string::npos || (!root.empty() && own_root != root)) {
      return absl::InvalidArgumentError(absl::StrCat(
          file, ": zip member \"", absl::CHexEscape(member.name),
          "\" lies outside the one folder that an archive of torch.save has (", root, "/)"));
    }
    root = own_root;
    members[member.name.substr(slash + 1)] = member.bytes;
  }
  if (members.count("data.pkl") == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": no data.pkl in the archive; expected one written by torch.save"));
  }
  if (const auto order = members.find("byteorder"); order != members.end()) {
    const absl::string_view text(reinterpret_cast<const char*>(order->second.data()),
                                 order->second.size());
    if (text != "little") {
      return absl::InvalidArgumentError(absl::StrCat(
          file, ": byteorder is \"", absl::CHexEscape(text.substr(0, 16)), "\"; expected little"));
    }
  }
  return members;
}

// One entry of the dictionary, read into a TensorInfo.
class EntryReader final {
 public:
  EntryReader(const Pickle& pickle, const Members& members, const std::string& file,
              absl::string_view name)
      : pickle_(pickle), members_(members), file_(file), name_(name) {}

  absl::StatusOr<TensorInfo> Read(uint32_t index) const {
    if (IsCall(At(index), kRebuildParameter)) {
      const std::vector<uint32_t>& parameter = Arguments(At(index));
      if (parameter.size() != 3) return Refuse("_rebuild_parameter needs 3 arguments");
      index = parameter[0];
    }
    const bool v3 = IsCall(At(index), kRebuildTensorV3);
    if (!v3 && !IsCall(At(index), kRebuildTensorV2)) {
      return Refuse("is not a tensor; only meta and quant_meta may hold plain values");
    }
    const std::vector<uint32_t>& arguments = Arguments(At(index));
    if (arguments.size() != (v3 ? 7u : 6u)) {
      return Refuse(absl::StrCat("a rebuild call with ", arguments.size(), " arguments; ",
                                 v3 ? "7" : "6", " expected"));
    }
    ASSIGN_OR_RETURN(const Storage storage, ReadStorage(At(arguments[0])));
    TensorInfo tensor = {
        .name = std::string(name_), .dtype = DType::kBf16, .shape = {}, .file = file_, .bytes = {}};
    ASSIGN_OR_RETURN(tensor.dtype, ReadDType(storage, v3 ? &At(arguments[6]) : nullptr));
    ASSIGN_OR_RETURN(tensor.shape, ReadInts(At(arguments[2]), "size"));
    ASSIGN_OR_RETURN(const auto stride, ReadInts(At(arguments[3]), "stride"));
    RETURN_IF_ERROR(CheckContiguous(tensor.shape, stride));
    const PickleValue& offset = At(arguments[1]);
    if (offset.kind != PickleKind::kInt) return Refuse("the storage offset is not an integer");
    ASSIGN_OR_RETURN(tensor.bytes, Slice(storage, tensor, offset.integer));
    return tensor;
  }

 private:
  struct Storage {
    std::string key;
    absl::string_view type;  // the storage class
    int64_t count = 0;       // elements, or bytes of an UntypedStorage
  };

  const PickleValue& At(uint32_t index) const { return pickle_.values[index]; }

  absl::Status Refuse(absl::string_view problem) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": tensor ", name_, ": ", problem));
  }

  bool IsCall(const PickleValue& value, absl::string_view function) const {
    return value.kind == PickleKind::kCall && At(value.items[0]).text == function;
  }

  const std::vector<uint32_t>& Arguments(const PickleValue& call) const {
    return At(call.items[1]).items;
  }

  absl::StatusOr<Storage> ReadStorage(const PickleValue& value) const {
    if (value.kind != PickleKind::kPersistent) return Refuse("its storage is not a reference");
    const PickleValue& id = At(value.items[0]);
    const std::vector<uint32_t>& parts = id.items;
    if (id.kind != PickleKind::kTuple || parts.size() != 5 || At(parts[0]).text != "storage" ||
        At(parts[1]).kind != PickleKind::kGlobal || At(parts[2]).kind != PickleKind::kText ||
        At(parts[4]).kind != PickleKind::kInt) {
      return Refuse("expected a storage reference (\"storage\", class, key, device, count)");
    }
    return Storage{.key = std::string(At(parts[2]).text),
                   .type = At(parts[1]).text,
                   .count = At(parts[4]).integer};
  }

  // `dtype` is the seventh argument of a v3 call, null for v2.
  absl::StatusOr<DType> ReadDType(const Storage& storage, const PickleValue* dtype) const {
    const std::optional<DType> type =
        dtype == nullptr ? StorageDType(storage.type)
                         : TorchDType(dtype->kind == PickleKind::kGlobal ? dtype->text : "");
    if (!type.has_value() || (dtype != nullptr && storage.type != kUntypedStorage)) {
      return Refuse(
          "its element type is unknown; expected a storage class, or UntypedStorage with a type");
    }
    return *type;
  }

  absl::StatusOr<std::vector<int64_t>> ReadInts(const PickleValue& value,
                                                absl::string_view what) const {
    if (value.kind != PickleKind::kTuple || value.items.size() > 8) {
      return Refuse(absl::StrCat("its ", what, " is not a tuple of at most 8 integers"));
    }
    std::vector<int64_t> ints;
    for (uint32_t item : value.items) {
      if (At(item).kind != PickleKind::kInt) {
        return Refuse(absl::StrCat("its ", what, " is not a tuple of integers"));
      }
      ints.push_back(At(item).integer);
    }
    return ints;
  }

  // The stride of an axis of size 1 has no meaning.
  absl::Status CheckContiguous(absl::Span<const int64_t> shape,
                               absl::Span<const int64_t> stride) const {
    const auto count = ElementCount(shape, DType::kFp64);
    if (count.ok() && shape.size() == stride.size()) {
      bool contiguous = true;
      int64_t expected = 1;
      for (size_t axis = shape.size(); axis-- > 0 && *count > 0;) {
        if (shape[axis] != 1 && stride[axis] != expected) contiguous = false;
        expected *= shape[axis];
      }
      if (contiguous) return absl::OkStatus();
    }
    return Refuse(absl::StrCat("size ", ShapeString(shape), " with stride ", ShapeString(stride),
                               "; expected a contiguous tensor"));
  }

  absl::StatusOr<absl::Span<const uint8_t>> Slice(const Storage& storage, const TensorInfo& tensor,
                                                  int64_t offset) const {
    const auto member = members_.find(absl::StrCat("data/", storage.key));
    if (member == members_.end()) {
      return Refuse(absl::StrCat("its storage data/", absl::CHexEscape(storage.key),
                                 " is missing from the archive"));
    }
    const int64_t width = static_cast<int64_t>(DTypeSize(tensor.dtype));
    const int64_t unit = storage.type == kUntypedStorage ? 1 : width;
    const int64_t held = static_cast<int64_t>(member->second.size());
    int64_t declared = 0;
    if (storage.count < 0 || __builtin_mul_overflow(storage.count, unit, &declared) ||
        declared != held) {
      return Refuse(absl::StrCat("its storage data/", storage.key, " holds ", held, " bytes; ",
                                 storage.count, " x ", unit, " expected"));
    }
    ASSIGN_OR_RETURN(const int64_t count, ElementCount(tensor.shape, tensor.dtype));
    int64_t start = 0;
    int64_t end = 0;
    if (offset < 0 || __builtin_mul_overflow(offset, width, &start) ||
        __builtin_add_overflow(start, count * width, &end) || end > held) {
      return Refuse(absl::StrCat("shape ", ShapeString(tensor.shape), " of ",
                                 DTypeName(tensor.dtype), " at element ", offset,
                                 " ends outside its storage of ", held, " bytes"));
    }
    return member->second.subspan(static_cast<size_t>(start), static_cast<size_t>(end - start));
  }

  const Pickle& pickle_;
  const Members& members_;
  const std::string& file_;
  absl::string_view name_;
};

// The text under `scheme` of a dictionary of plain values.
std::string Scheme(const Pickle& pickle, const PickleValue& dictionary) {
  for (size_t i = 0; i + 1 < dictionary.items.size() && dictionary.kind == PickleKind::kDict;
       i += 2) {
    if (pickle.values[dictionary.items[i]].text == "scheme") {
      return std::string(pickle.values[dictionary.items[i + 1]].text.substr(0, 64));
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<PthContents> ReadPth(absl::Span<const uint8_t> archive, const std::string& file) {
  ASSIGN_OR_RETURN(const Members members, OpenArchive(archive, file));
  ASSIGN_OR_RETURN(const Pickle pickle, ReadPickle(members.at("data.pkl"), file));
  const PickleValue& root = pickle.values[pickle.root];
  if (root.kind != PickleKind::kDict) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": data.pkl holds no dictionary of tensors"));
  }
  if (root.items.size() / 2 > kMaxTensors) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": data.pkl lists ", root.items.size() / 2,
                                                   " tensors; at most ", kMaxTensors, " are read"));
  }
  PthContents contents;
  for (size_t i = 0; i < root.items.size(); i += 2) {
    const PickleValue& key = pickle.values[root.items[i]];
    if (key.kind != PickleKind::kText || !IsTensorName(key.text)) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": data.pkl: a key (\"",
                                                     absl::CHexEscape(key.text.substr(0, 64)),
                                                     "\") is not the name of a tensor"));
    }
    const PickleValue& value = pickle.values[root.items[i + 1]];
    if (value.kind != PickleKind::kCall && (key.text == "meta" || key.text == "quant_meta")) {
      if (key.text == "quant_meta") contents.quant_scheme = Scheme(pickle, value);
      continue;
    }
    ASSIGN_OR_RETURN(auto tensor,
                     EntryReader(pickle, members, file, key.text).Read(root.items[i + 1]));
    contents.tensors.push_back(std::move(tensor));
  }
  return contents;
}

}  // namespace tandem
