#include "services/cli/runtime_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

// The directory of a process that was killed, and its pid is gone.
std::string Abandon() {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto directory = RuntimeDirectory::Create();
    const std::string path = directory.ok() ? directory->path() : "";
    [[maybe_unused]] const ssize_t n = write(fds[1], path.data(), path.size());
    for (;;) pause();
  }
  char path[256];
  const ssize_t n = read(fds[0], path, sizeof(path));
  close(fds[0]);
  close(fds[1]);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return std::string(path, n > 0 ? static_cast<size_t>(n) : 0);
}

TEST(RuntimeDirectoryTest, TheNextOneRemovesWhatAKilledProcessLeft) {
  const auto living = RuntimeDirectory::Create();
  ASSERT_TRUE(living.ok());
  const std::string abandoned = Abandon();
  ASSERT_TRUE(std::filesystem::exists(abandoned)) << abandoned;
  const auto next = RuntimeDirectory::Create();
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  EXPECT_TRUE(std::filesystem::exists(living->path()));
}

TEST(RuntimeDirectoryTest, FoldersOfTheSameNameAreLeftAlone) {
  const auto base = RuntimeDirectory::Create();
  ASSERT_TRUE(base.ok());
  const std::string other = base->path() + "/tandem-abcdef";
  std::filesystem::create_directory(other);
  setenv("XDG_RUNTIME_DIR", base->path().c_str(), 1);
  const auto directory = RuntimeDirectory::Create();
  unsetenv("XDG_RUNTIME_DIR");
  ASSERT_TRUE(directory.ok());
  EXPECT_TRUE(std::filesystem::exists(other));
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
