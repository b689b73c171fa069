#include "common/model/safetensors/safetensors_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/json_text.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr char kMetadata[] = "__metadata__";

struct TypeName {
  absl::string_view name;
  DType value;
};

constexpr TypeName kTypes[] = {
    {"BF16", DType::kBf16}, {"F16", DType::kFp16},        {"F32", DType::kFp32},
    {"F64", DType::kFp64},  {"F8_E4M3", DType::kFp8E4m3}, {"F8_E5M2", DType::kFp8E5m2},
    {"I64", DType::kInt64}, {"I32", DType::kInt32},       {"I16", DType::kInt16},
    {"I8", DType::kInt8},   {"U8", DType::kUint8},        {"BOOL", DType::kBool},
};

absl::Status Refuse(const std::string& file, absl::string_view tensor, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": tensor ", absl::CHexEscape(tensor.substr(0, 256)), ": ", problem));
}

std::optional<DType> ReadType(const json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  for (const TypeName& type : kTypes) {
    if (text != nullptr && type.name == *text) return type.value;
  }
  return std::nullopt;
}

// A list of numbers that fit an int64, or nothing.
std::optional<std::vector<int64_t>> ReadNumbers(const json& value, size_t max_size) {
  if (!value.is_array() || value.size() > max_size) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const json& item : value) {
    const auto* number = item.get_ptr<const json::number_unsigned_t*>();
    if (number == nullptr || *number > INT64_MAX) return std::nullopt;
    numbers.push_back(static_cast<int64_t>(*number));
  }
  return numbers;
}

absl::StatusOr<TensorInfo> ReadTensor(const std::string& name, const json& entry,
                                      absl::Span<const uint8_t> data, const std::string& file) {
  if (!IsTensorName(name)) return Refuse(file, name, "this is not the name of a tensor");
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return Refuse(file, name, "its entry is not {dtype, shape, data_offsets}");
  }
  const std::optional<DType> dtype = ReadType(entry["dtype"]);
  if (!dtype.has_value()) {
    return Refuse(
        file, name,
        absl::StrCat(
            "unknown type ",
            entry["dtype"].dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 64)));
  }
  auto shape = ReadNumbers(entry["shape"], 8);
  if (!shape.has_value()) return Refuse(file, name, "its shape is not a list of at most 8 sizes");
  const auto offsets = ReadNumbers(entry["data_offsets"], 2);
  if (!offsets.has_value() || offsets->size() != 2) {
    return Refuse(file, name, "its data_offsets are not [begin, end]");
  }
  const auto [begin, end] = std::pair((*offsets)[0], (*offsets)[1]);
  if (begin > end || static_cast<uint64_t>(end) > data.size()) {
    return Refuse(file, name,
                  absl::StrCat("bytes ", begin, " to ", end, " are not inside the ", data.size(),
                               " bytes of data (truncated?)"));
  }
  const auto count = ElementCount(*shape, *dtype);
  if (!count.ok()) return Refuse(file, name, count.status().message());
  const int64_t bytes = *count * static_cast<int64_t>(DTypeSize(*dtype));
  if (end - begin != bytes) {
    return Refuse(file, name,
                  absl::StrCat("shape ", ShapeString(*shape), " of ", DTypeName(*dtype), " needs ",
                               bytes, " bytes; its data_offsets span ", end - begin));
  }
  return TensorInfo{.name = name,
                    .dtype = *dtype,
                    .shape = *std::move(shape),
                    .file = file,
                    .bytes = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(bytes))};
}

// Informative, so what is not of this form says nothing.
std::string Scheme(const json& metadata) {
  const auto meta = metadata.is_object() ? metadata.find("quant_meta") : metadata.end();
  if (meta == metadata.end() || !meta->is_string()) return "";
  const auto parsed = ParseJsonObject(meta->get_ref<const std::string&>(), "quant_meta");
  if (!parsed.ok() || !parsed->contains("scheme") || !(*parsed)["scheme"].is_string()) return "";
  return (*parsed)["scheme"].get<std::string>().substr(0, 64);
}

// The tensors must cover the data exactly.
absl::Status CheckTiling(const std::vector<TensorInfo>& tensors, absl::Span<const uint8_t> data,
                         const std::string& file) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& tensor : tensors) {
    if (!tensor.bytes.empty()) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return a->bytes.data() < b->bytes.data();
  });
  const uint8_t* end = data.data();
  const TensorInfo* previous = nullptr;
  for (const TensorInfo* tensor : order) {
    if (tensor->bytes.data() < end) {
      return Refuse(file, tensor->name,
                    absl::StrCat("its bytes overlap those of ", previous->name));
    }
    if (tensor->bytes.data() > end) {
      return Refuse(file, tensor->name,
                    absl::StrCat(tensor->bytes.data() - end,
                                 " bytes before it belong to no tensor; expected none"));
    }
    end = tensor->bytes.data() + tensor->bytes.size();
    previous = tensor;
  }
  if (end != data.data() + data.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", data.data() + data.size() - end,
                     " bytes after the last tensor belong to no tensor; expected none"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsContents> ReadSafetensors(absl::Span<const uint8_t> bytes,
                                                    const std::string& file) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes && i < bytes.size(); ++i) {
    length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  if (bytes.size() < kLengthBytes || length > bytes.size() - kLengthBytes ||
      length > kMaxJsonBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": a header of ", length, " bytes in a file of ", bytes.size(),
        " bytes; expected one that fits and has at most ", kMaxJsonBytes, " bytes (truncated?)"));
  }
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const absl::Span<const uint8_t> data = bytes.subspan(kLengthBytes + length);
  ASSIGN_OR_RETURN(const json header, ParseJsonObject(text, absl::StrCat(file, ": header")));
  if (header.size() > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", header.size(), " tensors; at most ", kMaxTensors, " are read"));
  }
  SafetensorsContents contents;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      contents.quant_scheme = Scheme(entry);
      continue;
    }
    ASSIGN_OR_RETURN(auto tensor, ReadTensor(name, entry, data, file));
    contents.tensors.push_back(std::move(tensor));
  }
  RETURN_IF_ERROR(CheckTiling(contents.tensors, data, file));
  return contents;
}

absl::StatusOr<std::map<std::string, std::string>> ReadShardIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const json index, ReadJsonObject(path));
  if (!index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no weight_map; expected {\"weight_map\": {tensor: file}}"));
  }
  std::map<std::string, std::string> shards;
  for (const auto& [name, value] : index["weight_map"].items()) {
    const auto* file = value.get_ptr<const std::string*>();
    if (file == nullptr || file->find('/') != std::string::npos ||
        file->find('\0') != std::string::npos || !absl::EndsWith(*file, ".safetensors")) {
      return Refuse(path, name,
                    "its shard is not the name of a .safetensors file in the same folder");
    }
    shards[name] = *file;
  }
  return shards;
}

}  // namespace tandem
