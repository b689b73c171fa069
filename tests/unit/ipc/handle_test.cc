#include "common/ipc/handle.h"

#include <gtest/gtest.h>

namespace tandem::ipc {
namespace {

TEST(HandleTest, SixtyFourBytesGoThrough) {
  ExportHandle handle{.bytes = 4096};
  for (size_t i = 0; i < 64; ++i) handle.ipc[i] = static_cast<uint8_t>(3 * i);
  const std::string text = HandleBytes(handle);
  ASSERT_EQ(text.size(), 64u);
  const auto back = HandleFrom(text, 4096);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->bytes, 4096u);
  EXPECT_EQ(back->fd, -1);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(back->ipc[i], static_cast<uint8_t>(3 * i));
}

TEST(HandleTest, OtherLengthsAreRefused) {
  for (const size_t size : {0, 1, 63, 65, 128}) {
    const auto handle = HandleFrom(std::string(size, 'x'), 4096);
    EXPECT_EQ(handle.status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(HandleTest, MemoryOfTheCpuHasNone) { EXPECT_EQ(HandleBytes({.fd = 3, .bytes = 1}), ""); }

}  // namespace
}  // namespace tandem::ipc
