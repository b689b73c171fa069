// Device memory of another process. A handle cannot be opened by the process that made it, so these
// tests start this program again as the reader.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "tests/gpu/on_device.h"

namespace tandem {
namespace {

constexpr char kHandle[] = "TANDEM_TEST_HANDLE";
constexpr size_t kCount = 1000;

std::string Hex(const ExportHandle& handle) {
  std::string text;
  for (const uint8_t byte : handle.ipc) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

ExportHandle FromHex(const std::string& text, size_t bytes) {
  ExportHandle handle{.bytes = bytes};
  for (size_t i = 0; i < sizeof(handle.ipc); ++i)
    handle.ipc[i] = static_cast<uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return handle;
}

// Runs the test IpcReader.ReadsAndAnswers in another process; its exit status.
int RunReader(const ExportHandle& handle) {
  setenv(kHandle, Hex(handle).c_str(), 1);
  std::string filter = "--gtest_filter=IpcReader.*", program = "/proc/self/exe";
  char* arguments[] = {program.data(), filter.data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ);
  unsetenv(kHandle);
  if (failed != 0) return -1;
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Only as the other process: checks the numbers 0, 1, 2 ... and adds 1 to each.
TEST(IpcReader, ReadsAndAnswers) {
  const char* const text = std::getenv(kHandle);
  if (text == nullptr) GTEST_SKIP() << "started by the tests of Ipc only";
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  ASSERT_NE(cuda, nullptr);
  OnDevice device(*cuda);
  // More than was exported, by more than the exporter's page.
  EXPECT_EQ(cuda->Import(FromHex(text, size_t{64} << 20), false), nullptr);
  EXPECT_EQ(cuda->Import(FromHex(text, 0), false), nullptr);
  void* memory = cuda->Import(FromHex(text, kCount * sizeof(int)), true);
  ASSERT_NE(memory, nullptr);
  const View<int> numbers = {static_cast<int*>(memory), kCount};
  std::vector<int> values = device.Read(numbers);
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(values[i]++, static_cast<int>(i));
  cuda->CopyIn(memory, values.data(), kCount * sizeof(int));
  cuda->Wait();
  cuda->Unimport(memory);
}

TEST(Ipc, AnotherProcessReadsAndWrites) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  ExportHandle handle;
  void* memory = cuda->AllocateExported(kCount * sizeof(int), &handle);
  ASSERT_NE(memory, nullptr);
  ASSERT_TRUE(cuda->SealForReaders(handle));
  std::vector<int> values(kCount);
  for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int>(i);
  cuda->CopyIn(memory, values.data(), kCount * sizeof(int));
  cuda->Wait();
  EXPECT_EQ(RunReader(handle), 0);
  OnDevice device(*cuda);
  const std::vector<int> answer = device.Read(View<int>{static_cast<int*>(memory), kCount});
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(answer[i], static_cast<int>(i) + 1);
}

TEST(Ipc, NonsenseIsRefused) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  EXPECT_EQ(cuda->Import({.bytes = 4096}, false), nullptr);
  OnDevice device(*cuda);
  EXPECT_EQ(device.Read(device.In<int>({1})), std::vector<int>{1});
}

}  // namespace
}  // namespace tandem
