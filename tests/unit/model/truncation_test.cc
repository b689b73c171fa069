#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/model/pth/pth_reader.h"
#include "common/model/safetensors/safetensors_reader.h"

namespace tandem {
namespace {

// About 400 offsets: every one near both ends, evenly spread ones between.
std::vector<size_t> Offsets(size_t size) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < 100; ++i) offsets.push_back(i);
  for (size_t i = 1; i < 200; ++i) offsets.push_back(size / 200 * i);
  for (size_t i = 1; i <= 100; ++i) offsets.push_back(size - i);
  return offsets;
}

TEST(TruncationTest, TheDemoArchiveCutAnywhereIsRefused) {
  const std::string path = "deploy/demo-model/rwkv7-demo-9m.pth";
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto bytes = (*file)->bytes();
  ASSERT_TRUE(ReadPth(bytes, path).ok());
  for (size_t size : Offsets(bytes.size())) {
    const auto contents = ReadPth(bytes.subspan(0, size), path);
    EXPECT_EQ(contents.status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(TruncationTest, TheDemoSidecarCutAnywhereIsRefused) {
  const std::string path = "deploy/demo-model/mtp/mtp.safetensors";
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto bytes = (*file)->bytes();
  ASSERT_TRUE(ReadSafetensors(bytes, path).ok());
  for (size_t size : Offsets(bytes.size())) {
    const auto tensors = ReadSafetensors(bytes.subspan(0, size), path);
    EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

}  // namespace
}  // namespace tandem
