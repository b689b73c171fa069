#include "services/cli/ready_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "services/cli/runtime_directory.h"

namespace tandem::cli {
namespace {

using testing::HasSubstr;

class ReadyFileTest : public testing::Test {
 protected:
  bool Exists() const { return std::filesystem::exists(path_); }
  void Put(absl::string_view text) { ASSERT_TRUE(WriteFileAtomically(path_, text).ok()); }

  RuntimeDirectory directory_ = *RuntimeDirectory::Create();
  std::string path_ = directory_.File("ready.json");
};

TEST_F(ReadyFileTest, IsThereFromWriteToTheEnd) {
  std::optional<ReadyFile> file = *ReadyFile::Claim(path_);
  EXPECT_FALSE(Exists());
  ASSERT_TRUE(file->Write("{}").ok());
  EXPECT_TRUE(Exists());
  file.reset();
  EXPECT_FALSE(Exists());
}

TEST_F(ReadyFileTest, WithoutAPathNothingIsWritten) {
  auto file = ReadyFile::Claim("");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->Write("{}").ok());
}

TEST_F(ReadyFileTest, TheFileOfADeadProcessGoesAtOnce) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  Put(absl::StrCat("{\"pid\": ", pid, "}"));
  ASSERT_TRUE(ReadyFile::Claim(path_).ok());
  EXPECT_FALSE(Exists());
}

TEST_F(ReadyFileTest, TheOwnNumberOrAnotherProgramsIsAnEarlierLife) {
  // As in a container, where every start has the same few process ids.
  for (const pid_t pid : {getpid(), getppid()}) {
    Put(absl::StrCat("{\"pid\": ", pid, "}"));
    EXPECT_TRUE(ReadyFile::Claim(path_).ok()) << pid;
    EXPECT_FALSE(Exists());
  }
}

TEST_F(ReadyFileTest, ALivingOwnerKeepsIt) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  Put(absl::StrCat("{\"pid\": ", pid, "}"));
  const auto file = ReadyFile::Claim(path_);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(absl::StrCat(pid)));
  EXPECT_TRUE(Exists());
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(ReadyFileTest, OtherFilesAreLeftAlone) {
  Put("my notes");
  EXPECT_THAT(std::string(ReadyFile::Claim(path_).status().message()), HasSubstr("no ready file"));
  EXPECT_TRUE(Exists());
  // What mktemp makes.
  Put("");
  EXPECT_TRUE(ReadyFile::Claim(path_).ok());
}

}  // namespace
}  // namespace tandem::cli
