#include "common/base/file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/status_macros.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::path(::testing::TempDir()) / ("file_test." + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = directory_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::filesystem::path directory_;
};

TEST_F(FileTest, MapsTheWholeContent) {
  const auto file = MappedFile::Open(Write("a", std::string("x\0y", 3)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT((*file)->bytes(), ::testing::ElementsAre('x', 0, 'y'));
}

TEST_F(FileTest, EmptyFileIsAnEmptySpan) {
  const auto file = MappedFile::Open(Write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->bytes().empty());
}

TEST_F(FileTest, ErrorsNameThePath) {
  const auto missing = MappedFile::Open(directory_ / "missing");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("missing"));
  const auto folder = MappedFile::Open(directory_);
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(folder.status().message(), HasSubstr("not a regular file"));
}

TEST_F(FileTest, ReadFileStopsAtItsLimit) {
  const std::string path = Write("four", "abcd");
  EXPECT_EQ(*ReadFile(path, 4), "abcd");
  EXPECT_EQ(ReadFile(path, 3).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(FileTest, ReadLineTrimsProcFiles) {
  const auto boot_id = ReadLine("/proc/sys/kernel/random/boot_id");
  ASSERT_TRUE(boot_id.ok()) << boot_id.status();
  EXPECT_EQ(boot_id->size(), 36u);
}

absl::StatusOr<int> Half(int x) {
  if (x % 2 != 0) return absl::InvalidArgumentError("odd");
  return x / 2;
}

absl::StatusOr<int> Quarter(int x) {
  ASSIGN_OR_RETURN(const int half, Half(x));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(StatusMacros, ReturnTheFirstError) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_EQ(Quarter(5).status().message(), "odd");
}

TEST_F(FileTest, WriteFileAtomicallyReplacesTheWholeFile) {
  const std::string path = directory_ / "f";
  ASSERT_TRUE(WriteFileAtomically(path, "a longer text").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "short").ok());
  EXPECT_EQ(*ReadFile(path, 100), "short");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory_)) {
    ++files;
  }
  EXPECT_EQ(files, 1);
  EXPECT_FALSE(WriteFileAtomically(directory_ / "none/f", "x").ok());
}

}  // namespace
}  // namespace tandem
