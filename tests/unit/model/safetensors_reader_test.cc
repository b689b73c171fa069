#include "common/model/safetensors/safetensors_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/model/file_writers.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// The tensors' bytes lie in `bytes`, which must live on.
absl::StatusOr<SafetensorsContents> Read(const std::string& bytes) {
  return ReadSafetensors({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                         "x.safetensors");
}

std::string ErrorOf(const std::string& bytes) {
  const auto tensors = Read(bytes);
  if (tensors.ok()) return "no error";
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tensors.status().message()), HasSubstr("x.safetensors"));
  return std::string(tensors.status().message());
}

// The error for one entry "w" over 16 bytes of data.
std::string ErrorOfEntry(const std::string& entry) {
  return ErrorOf(SafetensorsWith("{\"w\":" + entry + "}", std::string(16, 'a')));
}

std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(SafetensorsReaderTest, ReadsTensorsAndPadding) {
  const std::string bytes =
      SafetensorsWith("{\"__metadata__\":{\"a\":\"b\"},\"w\":" + Entry("F32", "[1,3]", "[4,16]") +
                          ",\"e\":" + Entry("F32", "[0,7]", "[4,4]") +
                          ",\"s\":" + Entry("I32", "[]", "[0,4]") + "}    ",
                      "0123456789abcdef");
  const auto contents = Read(bytes);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const std::vector<TensorInfo>& tensors = contents->tensors;
  ASSERT_EQ(tensors.size(), 3u);
  const TensorInfo& w = tensors[2];
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.shape, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(std::string(w.bytes.begin(), w.bytes.end()), "456789abcdef");
  EXPECT_EQ(tensors[0].bytes.size(), 0u);
  EXPECT_EQ(tensors[1].dtype, DType::kInt32);
  EXPECT_EQ(tensors[1].bytes.size(), 4u);
}

TEST(SafetensorsReaderTest, EntriesThatDoNotFitAreRefused) {
  EXPECT_EQ(ErrorOfEntry(Entry("F32", "[4]", "[0,16]")), "no error");
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[3]", "[0,16]")), HasSubstr("needs 12 bytes"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[5]", "[0,20]")), HasSubstr("not inside the 16 bytes"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[4]", "[16,0]")), HasSubstr("bytes 16 to 0"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[4]", "[-16,0]")), HasSubstr("data_offsets are not"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[4]", "[0,16,16]")), HasSubstr("data_offsets are not"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[4]", "[0,1.6e1]")), HasSubstr("data_offsets are not"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[-4]", "[0,16]")), HasSubstr("shape is not a list"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "4", "[0,16]")), HasSubstr("shape is not a list"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[1,1,1,1,1,1,1,1,4]", "[0,16]")), HasSubstr("at most 8"));
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[4294967296,4294967296]", "[0,16]")),
              HasSubstr("not that of a tensor in memory"));
  // 2^62 elements of 4 bytes wrap around to 0 in 64 bits.
  EXPECT_THAT(ErrorOfEntry(Entry("F32", "[4611686018427387904]", "[0,0]")),
              HasSubstr("not that of a tensor in memory"));
  EXPECT_THAT(ErrorOfEntry(Entry("F4", "[4]", "[0,16]")), HasSubstr("unknown type \"F4\""));
  EXPECT_THAT(ErrorOfEntry("{\"dtype\":7,\"shape\":[4],\"data_offsets\":[0,16]}"),
              HasSubstr("unknown type 7"));
  EXPECT_THAT(ErrorOfEntry("{\"shape\":[4],\"data_offsets\":[0,16]}"),
              HasSubstr("its entry is not"));
  EXPECT_THAT(ErrorOfEntry("[]"), HasSubstr("its entry is not"));
  EXPECT_THAT(ErrorOf(SafetensorsWith("{\"a b\":" + Entry("F32", "[4]", "[0,16]") + "}",
                                      std::string(16, 'a'))),
              HasSubstr("not the name of a tensor"));
}

TEST(SafetensorsReaderTest, TensorsMustTileTheData) {
  const auto two = [](const std::string& a, const std::string& b) {
    return ErrorOf(SafetensorsWith("{\"a\":" + a + ",\"b\":" + b + "}", std::string(16, 'x')));
  };
  EXPECT_EQ(two(Entry("F32", "[2]", "[8,16]"), Entry("F32", "[2]", "[0,8]")), "no error");
  EXPECT_THAT(two(Entry("F32", "[3]", "[0,12]"), Entry("F32", "[2]", "[8,16]")),
              HasSubstr("tensor b: its bytes overlap those of a"));
  EXPECT_THAT(two(Entry("F32", "[4]", "[0,16]"), Entry("F32", "[4]", "[0,16]")),
              HasSubstr("overlap"));
  EXPECT_THAT(two(Entry("F32", "[1]", "[0,4]"), Entry("F32", "[2]", "[8,16]")),
              HasSubstr("4 bytes before it belong to no tensor"));
  EXPECT_THAT(two(Entry("F32", "[1]", "[0,4]"), Entry("F32", "[2]", "[4,12]")),
              HasSubstr("4 bytes after the last tensor"));
}

TEST(SafetensorsReaderTest, DamagedHeadersAreRefused) {
  const std::string entry = Entry("F32", "[4]", "[0,16]");
  const std::string data(16, 'a');
  EXPECT_THAT(ErrorOf(""), HasSubstr("a header of"));
  EXPECT_THAT(ErrorOf("1234567"), HasSubstr("in a file of 7 bytes"));
  EXPECT_THAT(ErrorOf(std::string(8, '\xff')), HasSubstr("a header of 18446744073709551615 bytes"));
  EXPECT_THAT(ErrorOf(SafetensorsWith("{}", "").substr(0, 9)), HasSubstr("a header of 2 bytes"));
  EXPECT_EQ(ErrorOf(SafetensorsWith("{}", "")), "no error");
  for (const char* header :
       {"", "{", "[]", "null", "{\"w\":}", "{\"w\":1}x", "{\"\xff\":{}}", "{\"w\":1e999}"}) {
    EXPECT_THAT(ErrorOf(SafetensorsWith(header, "")), ::testing::Not("no error")) << header;
  }
  EXPECT_THAT(ErrorOf(SafetensorsWith("{\"w\":" + entry + ",\"w\":" + entry + "}", data)),
              HasSubstr("the key \"w\" appears twice"));
  EXPECT_THAT(ErrorOf(SafetensorsWith(std::string(100000, '['), data)), HasSubstr("nested deeper"));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_THAT(ErrorOf(SafetensorsWith(deep, data)), HasSubstr("nested deeper"));
  EXPECT_THAT(ErrorOf(SafetensorsWith(std::string((16 << 20) + 1, ' '), "")),
              HasSubstr("at most 16777216"));
}

}  // namespace
}  // namespace tandem
