#include "common/model/pth/pth_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_replace.h"
#include "tests/unit/model/file_writers.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<PthContents> Read(const std::string& bytes) {
  return ReadPth({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "x.pth");
}

std::string ErrorOf(const std::string& bytes) {
  const auto contents = Read(bytes);
  if (contents.ok()) return "no error";
  EXPECT_EQ(contents.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(contents.status().message()), HasSubstr("x.pth"));
  return std::string(contents.status().message());
}

std::string Archive(const std::string& pickle, const std::string& storage = std::string(16, 'a')) {
  return ZipOf({{.name = "m/data.pkl", .bytes = pickle}, {.name = "m/data/0", .bytes = storage}});
}

// A tensor "w" over a storage of 16 bytes: 4 floats in [2, 2].
PickledView Square() {
  return {.name = "w", .count = 4, .offset = 0, .shape = {2, 2}, .stride = {}, .dtype = ""};
}

std::string ErrorOfView(const std::function<void(PickledView&)>& damage) {
  PickledView view = Square();
  damage(view);
  return ErrorOf(Archive(PickleOf({view})));
}

TEST(PthReaderTest, TensorsMayShareAStorageLongerThanThemselves) {
  PickledView second = Square();
  second.name = "v";
  second.offset = 1;
  second.shape = {1, 2};
  const std::string archive = Archive(PickleOf({Square(), second}), "0123456789abcdef");
  const auto contents = Read(archive);
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->tensors.size(), 2u);
  const TensorInfo& v = contents->tensors[1];
  EXPECT_EQ(v.shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(std::string(v.bytes.begin(), v.bytes.end()), "456789ab");
}

TEST(PthReaderTest, StorageClassesGiveTheType) {
  const std::pair<const char*, DType> classes[] = {
      {"BFloat16Storage", DType::kBf16}, {"HalfStorage", DType::kFp16},
      {"ShortStorage", DType::kInt16},   {"FloatStorage", DType::kFp32},
      {"IntStorage", DType::kInt32},     {"DoubleStorage", DType::kFp64},
      {"LongStorage", DType::kInt64},    {"CharStorage", DType::kInt8},
      {"ByteStorage", DType::kUint8},    {"BoolStorage", DType::kBool}};
  for (const auto& [name, dtype] : classes) {
    PickledView view = Square();
    view.storage_class = name;
    view.count = 16 / static_cast<int64_t>(DTypeSize(dtype));
    view.shape = {view.count};
    const std::string archive = Archive(PickleOf({view}));
    const auto contents = Read(archive);
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->tensors[0].dtype, dtype);
    EXPECT_EQ(contents->tensors[0].bytes.size(), 16u);
  }
}

// The count of an UntypedStorage is in bytes, the offset in elements of the seventh argument.
TEST(PthReaderTest, VersionThreeCallsCountBytes) {
  PickledView view = Square();
  view.count = 16;
  view.dtype = "float8_e4m3fn";
  view.offset = 12;
  const std::string archive = Archive(PickleOf({view}), "0123456789abcdef");
  const auto contents = Read(archive);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const TensorInfo& tensor = contents->tensors[0];
  EXPECT_EQ(tensor.dtype, DType::kFp8E4m3);
  EXPECT_EQ(std::string(tensor.bytes.begin(), tensor.bytes.end()), "cdef");
}

TEST(PthReaderTest, ParametersOrderedDictsAndAttributesAreUnderstood) {
  // OrderedDict() filled, with `_metadata` attributes, holding _rebuild_parameter(tensor, True,
  // {}).
  PickleWriter tensor;
  AppendView(&tensor, Square());
  const std::string rebuild = tensor.bytes().substr(2 + 6);  // without protocol and name
  PickleWriter pickle;
  pickle.Global("collections", "OrderedDict").Raw(")R(").Text("w");
  pickle.Global("torch._utils", "_rebuild_parameter").Raw("(" + rebuild + "\x88");
  pickle.Global("collections", "OrderedDict").Raw(")RtRu}(").Text("_metadata").Raw("}ub.");
  const std::string archive = Archive(pickle.bytes());
  const auto contents = Read(archive);
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->tensors.size(), 1u);
  EXPECT_EQ(contents->tensors[0].shape, (std::vector<int64_t>{2, 2}));
}

TEST(PthReaderTest, PlainValuesStandOnlyUnderMeta) {
  PickleWriter pickle;
  pickle.Raw("}(").Text("quant_meta").Raw("}(").Text("scheme").Text("int4_rtn").Text("ts").Int(7);
  pickle.Raw("u").Text("meta").Raw("](").Int(1).Raw("NeU").bytes();
  std::string bytes = pickle.bytes();
  bytes.back() = 'u';
  const std::string archive = Archive(bytes + ".");
  const auto contents = Read(archive);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->quant_scheme, "int4_rtn");
  EXPECT_TRUE(contents->tensors.empty());
  EXPECT_THAT(ErrorOf(Archive(PickleWriter().Raw("}").Text("step").Int(3).Raw("s.").bytes())),
              HasSubstr("tensor step: is not a tensor"));
}

TEST(PthReaderTest, ViewsThatDoNotFitAreRefused) {
  using V = PickledView;
  EXPECT_EQ(ErrorOfView([](V&) {}), "no error");
  EXPECT_THAT(ErrorOfView([](V& v) { v.offset = 1; }), HasSubstr("ends outside its storage"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.offset = -1; }), HasSubstr("ends outside its storage"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.offset = INT64_MAX / 2; }), HasSubstr("ends outside"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.shape = {2, 3}; }), HasSubstr("ends outside its storage"));
  EXPECT_THAT(ErrorOfView([](V& v) {
                v.stride = {1, 2};
              }),
              HasSubstr("size [2, 2] with stride [1, 2]; expected a contiguous tensor"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.stride = {1}; }), HasSubstr("contiguous"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.shape = {-2, -2}; }), HasSubstr("contiguous"));
  EXPECT_THAT(ErrorOfView([](V& v) {
                v.shape = {int64_t{1} << 32, int64_t{1} << 32};
                v.stride = {int64_t{1} << 32, 1};
              }),
              HasSubstr("contiguous"));
  EXPECT_THAT(ErrorOfView([](V& v) {
                v.shape = {0, int64_t{1} << 40, int64_t{1} << 40};
                v.stride = {1, 1, 1};
              }),
              HasSubstr("no error"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.shape = std::vector<int64_t>(9, 1); }),
              HasSubstr("at most 8 integers"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.key = "1"; }), HasSubstr("storage data/1 is missing"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.key = "../../x"; }), HasSubstr("is missing"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.count = 5; }), HasSubstr("holds 16 bytes; 5 x 4 expected"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.count = INT64_MAX; }), HasSubstr("holds 16 bytes"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.count = -1; }), HasSubstr("holds 16 bytes"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.name = "a b"; }), HasSubstr("not the name of a tensor"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.name = std::string(300, 'x'); }), HasSubstr("not the name"));
  EXPECT_THAT(ErrorOfView([](V& v) { v.dtype = "float32"; }), HasSubstr("holds 16 bytes"));
}

TEST(PthReaderTest, MalformedCallsAreRefused) {
  const std::string sound = PickleOf({Square()});
  // The storage reference without its device, the size as a list, no arguments at all, no
  // dictionary.
  EXPECT_THAT(ErrorOf(Archive(absl::StrReplaceAll(sound, {{std::string("X\3\0\0\0cpu", 8), ""}}))),
              HasSubstr("expected a storage reference"));
  EXPECT_THAT(
      ErrorOf(Archive(absl::StrReplaceAll(sound, {{"torch\nFloatStorage", "torch\nfloat32"}}))),
      HasSubstr("element type is unknown"));
  EXPECT_THAT(ErrorOf(Archive(PickleWriter()
                                  .Raw("}")
                                  .Text("w")
                                  .Global("torch._utils", "_rebuild_tensor_v2")
                                  .Raw(")Rs.")
                                  .bytes())),
              HasSubstr("0 arguments; 6 expected"));
  EXPECT_THAT(ErrorOf(Archive(PickleWriter()
                                  .Raw("}")
                                  .Text("w")
                                  .Global("torch._utils", "_rebuild_parameter")
                                  .Raw(")Rs.")
                                  .bytes())),
              HasSubstr("_rebuild_parameter needs 3"));
  EXPECT_THAT(ErrorOf(Archive(PickleWriter().Raw("].").bytes())), HasSubstr("no dictionary"));
  EXPECT_THAT(ErrorOf(Archive(PickleWriter().Raw("}K\x01K\x02s.").bytes())), HasSubstr("a key"));
}

TEST(PthReaderTest, ContainersThatTorchDoesNotWriteAreRefused) {
  const std::string pickle = PickleOf({Square()});
  const ZipEntry data = {.name = "m/data.pkl", .bytes = pickle};
  const ZipEntry storage = {.name = "m/data/0", .bytes = std::string(16, 'a')};
  const auto with = [&](const ZipEntry& entry) { return ErrorOf(ZipOf({data, storage, entry})); };
  EXPECT_EQ(with({.name = "m/byteorder", .bytes = "little"}), "no error");
  EXPECT_THAT(with({.name = "m/byteorder", .bytes = "big"}), HasSubstr("byteorder is \"big\""));
  EXPECT_THAT(with({.name = "n/extra", .bytes = ""}), HasSubstr("lies outside the one folder"));
  EXPECT_THAT(with({.name = "extra", .bytes = ""}), HasSubstr("lies outside the one folder"));
  EXPECT_THAT(with({.name = "m/x", .bytes = "z", .method = 8}), HasSubstr("compressed (method 8)"));
  EXPECT_THAT(with({.name = "m/x", .bytes = "z", .method = 0, .flags = 1}), HasSubstr("encrypted"));
  EXPECT_THAT(with(storage), HasSubstr("appears twice in the archive"));
  EXPECT_THAT(ErrorOf(ZipOf({storage})), HasSubstr("no data.pkl"));
  EXPECT_THAT(ErrorOf(ZipOf({})), HasSubstr("no data.pkl"));
  EXPECT_THAT(ErrorOf(pickle), HasSubstr("legacy pickle"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("no sound zip archive"));
  EXPECT_THAT(ErrorOf("not a zip file at all"), HasSubstr("no sound zip archive"));
  EXPECT_THAT(with({.name = "m/" + std::string(2000, 'x'), .bytes = ""}),
              HasSubstr("a name of 2002 bytes"));
}

TEST(PthReaderTest, TwoViewsOfOneNameAreBothReported) {
  // The reader lists what the file lists; TensorFile refuses the repetition.
  const std::string archive = Archive(PickleOf({Square(), Square()}));
  const auto contents = Read(archive);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->tensors.size(), 2u);
}

TEST(PthReaderTest, TheNumberOfTensorsIsBounded) {
  std::string bytes = PickleWriter().Raw("}").bytes();
  bytes += PickleWriter().Text("w").Raw("q\x01").bytes().substr(2) + "Ns";
  for (int i = 0; i < 70000; ++i) bytes += "h\x01Ns";
  EXPECT_THAT(ErrorOf(Archive(bytes + ".")), HasSubstr("lists 70001 tensors; at most 65536"));
}

}  // namespace
}  // namespace tandem
