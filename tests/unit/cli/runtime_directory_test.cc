#include "services/cli/runtime_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "common/base/file.h"

namespace tandem::cli {
namespace {

TEST(RuntimeDirectoryTest, IsPrivateAndGoesAwayWithItsContents) {
  std::optional<RuntimeDirectory> directory = *RuntimeDirectory::Create();
  const std::string path = directory->path();
  struct stat st;
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700u);
  ASSERT_TRUE(WriteFileAtomically(directory->File("a"), "x").ok());
  directory.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(RuntimeDirectoryTest, LeavesRoomForASocketAddress) {
  setenv("XDG_RUNTIME_DIR", ("/tmp/" + std::string(90, 'x')).c_str(), 1);
  const auto directory = RuntimeDirectory::Create();
  unsetenv("XDG_RUNTIME_DIR");
  ASSERT_TRUE(directory.ok());
  EXPECT_LT(directory->File("draft.sock").size(), 107u);
}

}  // namespace
}  // namespace tandem::cli
