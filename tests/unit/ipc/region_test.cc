#include "common/ipc/region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/unit/ipc/child.h"

namespace tandem::ipc {
namespace {

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

TEST(RegionTest, IsZeroedAndSharedWithAnotherProcess) {
  const auto region = Region::Create("region-test", 10'000);
  ASSERT_TRUE(region.ok()) << region.status();
  const auto* bytes = static_cast<const char*>((*region)->data());
  for (size_t i = 0; i < 10'000; ++i) ASSERT_EQ(bytes[i], 0);
  Child peer([&region] {
    auto mapped = Region::Map(Duplicate((*region)->fd()), 10'000);
    if (!mapped.ok()) return 1;
    std::memcpy((*mapped)->data(), "hello", 5);
    return 0;
  });
  EXPECT_EQ(peer.Join(), 0);
  EXPECT_EQ(std::memcmp(bytes, "hello", 5), 0);
}

TEST(RegionTest, NobodyCanResizeIt) {
  const auto region = Region::Create("region-test", 8192);
  ASSERT_TRUE(region.ok());
  EXPECT_NE(ftruncate((*region)->fd(), 4096), 0);
  EXPECT_NE(ftruncate((*region)->fd(), 16384), 0);
}

TEST(RegionTest, WrongSizeIsRefused) {
  const auto region = Region::Create("region-test", 8192);
  ASSERT_TRUE(region.ok());
  for (const size_t bytes : {size_t{0}, size_t{8191}, size_t{8193}, ~size_t{0}}) {
    const auto mapped = Region::Map(Duplicate((*region)->fd()), bytes);
    EXPECT_EQ(mapped.status().code(), absl::StatusCode::kInvalidArgument) << bytes;
  }
}

TEST(RegionTest, MemoryThatCanShrinkIsRefused) {
  UniqueFd fd(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  EXPECT_EQ(CheckSealed(fd.get(), 4096).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_EQ(CheckSealed(fd.get(), 4096).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(CheckSealed(fd.get(), 4096).ok());
}

TEST(RegionTest, WhatIsNoMemoryFileIsRefused) {
  int pipes[2] = {-1, -1};
  ASSERT_EQ(pipe(pipes), 0);
  const UniqueFd in(pipes[0]);
  const UniqueFd out(pipes[1]);
  EXPECT_FALSE(CheckSealed(in.get(), 4096).ok());
  EXPECT_FALSE(CheckSealed(-1, 4096).ok());
}

}  // namespace
}  // namespace tandem::ipc
