#include "tests/unit/model/file_writers.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem {
namespace {

// `width` bytes, little-endian; zeros beyond the eighth.
void Append(std::string* bytes, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) {
    bytes->push_back(i < 8 ? static_cast<char>(value >> (8 * i)) : '\0');
  }
}

std::string StorageClass(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return "BFloat16Storage";
    case DType::kFp16:
      return "HalfStorage";
    case DType::kFp32:
      return "FloatStorage";
    case DType::kFp64:
      return "DoubleStorage";
    case DType::kInt64:
      return "LongStorage";
    case DType::kInt8:
      return "CharStorage";
    case DType::kUint8:
      return "ByteStorage";
    default:
      CHECK(false) << "no storage class for " << DTypeName(dtype);
      return "";
  }
}

// The types that torch.save writes with a v3 call; empty for the others.
std::string Fp8Type(DType dtype) {
  if (dtype == DType::kFp8E4m3) return "float8_e4m3fn";
  return dtype == DType::kFp8E5m2 ? "float8_e5m2" : "";
}

std::string SafetensorsType(DType dtype) {
  const std::map<DType, std::string> names = {{DType::kBf16, "BF16"}, {DType::kFp16, "F16"},
                                              {DType::kFp32, "F32"},  {DType::kFp64, "F64"},
                                              {DType::kInt64, "I64"}, {DType::kInt8, "I8"},
                                              {DType::kUint8, "U8"},  {DType::kFp8E4m3, "F8_E4M3"}};
  return names.at(dtype);
}

// What follows the common fields: the ZIP64 extra field of a local header or a directory entry.
std::string Zip64Extra(uint64_t size, uint64_t offset, bool directory) {
  std::string extra;
  Append(&extra, 1, 2);
  Append(&extra, directory ? 24 : 16, 2);
  Append(&extra, size, 8);
  Append(&extra, size, 8);
  if (directory) Append(&extra, offset, 8);
  return extra;
}

// A local header, or with `directory` a central directory entry.
std::string ZipHeader(const ZipEntry& entry, uint64_t offset, bool zip64, bool directory) {
  const uint64_t size = entry.bytes.size() + entry.hole;
  const std::string extra = zip64 ? Zip64Extra(size, offset, directory) : "";
  std::string out = directory ? "PK\1\2" : "PK\3\4";
  if (directory) Append(&out, 45, 2);
  Append(&out, zip64 ? 45 : 20, 2);
  Append(&out, entry.flags, 2);
  Append(&out, entry.method, 2);
  Append(&out, 0, 8);  // time, date, checksum
  for (int i = 0; i < 2; ++i) Append(&out, zip64 ? 0xFFFFFFFF : size, 4);
  Append(&out, entry.name.size(), 2);
  Append(&out, extra.size(), 2);
  if (directory) {
    Append(&out, 0, 10);  // comment, disk, attributes
    Append(&out, zip64 ? 0xFFFFFFFF : offset, 4);
  }
  return out + entry.name + extra;
}

}  // namespace

TempFolder::TempFolder() {
  std::string pattern = ::testing::TempDir() + "tandem_model_XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TempFolder::Write(const std::string& name, const std::string& bytes) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  CHECK(out.good());
  return path.string();
}

PickleWriter& PickleWriter::Op(char opcode) { return Raw(std::string(1, opcode)); }

PickleWriter& PickleWriter::Raw(const std::string& bytes) {
  bytes_ += bytes;
  return *this;
}

PickleWriter& PickleWriter::Global(const std::string& module, const std::string& name) {
  return Raw("c" + module + "\n" + name + "\n");
}

PickleWriter& PickleWriter::Text(const std::string& text) {
  bytes_.push_back('X');
  Append(&bytes_, text.size(), 4);
  return Raw(text);
}

PickleWriter& PickleWriter::Int(int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX) {
    bytes_.push_back('J');
    Append(&bytes_, static_cast<uint64_t>(value), 4);
  } else {
    Raw("\x8a\x08");
    Append(&bytes_, static_cast<uint64_t>(value), 8);
  }
  return *this;
}

PickleWriter& PickleWriter::Tuple(const std::vector<int64_t>& values) {
  Op('(');
  for (int64_t value : values) Int(value);
  return Op('t');
}

void AppendView(PickleWriter* pickle, const PickledView& view) {
  std::vector<int64_t> stride = view.stride;
  if (stride.empty()) {
    stride.resize(view.shape.size(), 1);
    for (size_t i = view.shape.size(); i-- > 1;) stride[i - 1] = stride[i] * view.shape[i];
  }
  const bool v3 = !view.dtype.empty();
  pickle->Text(view.name)
      .Global("torch._utils", v3 ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2")
      .Op('(')
      .Op('(')
      .Text("storage")
      .Global(v3 ? "torch.storage" : "torch", v3 ? "UntypedStorage" : view.storage_class)
      .Text(view.key)
      .Text("cpu")
      .Int(view.count)
      .Raw("tQ")
      .Int(view.offset)
      .Tuple(view.shape)
      .Tuple(stride)
      .Op('\x89')
      .Global("collections", "OrderedDict")
      .Raw(")R");
  if (v3) pickle->Global("torch", view.dtype);
  pickle->Raw("tR");
}

std::string PickleOf(const std::vector<PickledView>& views, const std::string& quant_scheme) {
  PickleWriter pickle;
  pickle.Raw("}(");
  for (const PickledView& view : views) AppendView(&pickle, view);
  if (!quant_scheme.empty()) {
    pickle.Text("quant_meta").Raw("}(").Text("scheme").Text(quant_scheme);
    pickle.Text("ts").Int(1780000000).Op('u');
  }
  return pickle.Raw("u.").bytes();
}

std::string ZipOf(const std::vector<ZipEntry>& entries, bool zip64) {
  std::string out;
  std::string directory;
  uint64_t holes = 0;
  for (const ZipEntry& entry : entries) {
    directory += ZipHeader(entry, out.size() + holes, zip64, /*directory=*/true);
    out += ZipHeader(entry, out.size() + holes, zip64, /*directory=*/false) + entry.bytes;
    holes += entry.hole;
  }
  const uint64_t start = out.size() + holes;
  out += directory;
  if (zip64) {
    const uint64_t end64 = out.size() + holes;
    out += "PK\6\6";
    Append(&out, 44, 8);
    Append(&out, 45, 2);
    Append(&out, 45, 2);
    Append(&out, 0, 8);  // disks
    for (int i = 0; i < 2; ++i) Append(&out, entries.size(), 8);
    Append(&out, directory.size(), 8);
    Append(&out, start, 8);
    out += "PK\6\7";
    Append(&out, 0, 4);
    Append(&out, end64, 8);
    Append(&out, 1, 4);
  }
  out += "PK\5\6";
  Append(&out, 0, 4);
  for (int i = 0; i < 2; ++i) Append(&out, zip64 ? 0xFFFF : entries.size(), 2);
  Append(&out, zip64 ? 0xFFFFFFFF : directory.size(), 4);
  Append(&out, zip64 ? 0xFFFFFFFF : start, 4);
  Append(&out, 0, 2);
  return out;
}

std::string PthOf(const std::vector<TestTensor>& tensors, bool zip64,
                  const std::string& quant_scheme) {
  std::vector<PickledView> views;
  std::vector<ZipEntry> entries(1);
  for (const TestTensor& tensor : tensors) {
    const std::string key = absl::StrCat(views.size());
    const std::string fp8 = Fp8Type(tensor.dtype);
    views.push_back({.name = tensor.name,
                     .storage_class = fp8.empty() ? StorageClass(tensor.dtype) : "",
                     .key = key,
                     .count = static_cast<int64_t>(tensor.bytes.size() / DTypeSize(tensor.dtype)),
                     .offset = 0,
                     .shape = tensor.shape,
                     .stride = {},
                     .dtype = fp8});
    entries.push_back({.name = "tiny/data/" + key, .bytes = tensor.bytes});
  }
  entries[0] = {.name = "tiny/data.pkl", .bytes = PickleOf(views, quant_scheme)};
  entries.push_back({.name = "tiny/byteorder", .bytes = "little"});
  entries.push_back({.name = "tiny/version", .bytes = "3\n"});
  return ZipOf(entries, zip64);
}

std::string SafetensorsOf(const std::vector<TestTensor>& tensors, const std::string& quant_scheme) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  if (!quant_scheme.empty()) {
    header["__metadata__"]["quant_meta"] = nlohmann::json({{"scheme", quant_scheme}}).dump();
  }
  std::string data;
  for (const TestTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", SafetensorsType(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return SafetensorsWith(header.dump(), data);
}

std::string SafetensorsWith(const std::string& header, const std::string& data) {
  std::string out;
  Append(&out, header.size(), 8);
  return out + header + data;
}

}  // namespace tandem
