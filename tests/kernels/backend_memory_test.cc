#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "gmock/gmock.h"
#include "kernels/backend.h"

namespace tandem {
namespace {

TEST(BackendMemoryTest, AllocationsAreZeroedAndAligned) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{5} << 20}) {
    const auto* memory = static_cast<const uint8_t*>(backend->Allocate(bytes));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    EXPECT_EQ(memory[0], 0);
    EXPECT_EQ(memory[bytes - 1], 0);
  }
}

TEST(BackendMemoryTest, MoreThanThereIsGivesNull) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  EXPECT_EQ(backend->Allocate(size_t{1} << 60), nullptr);
  ExportHandle handle;
  EXPECT_EQ(backend->AllocateExported(size_t{1} << 60, &handle), nullptr);
}

TEST(BackendMemoryTest, ImportSeesTheSameMemory) {
  const std::unique_ptr<Backend> owner = MakeCpuBackend(1), peer = MakeCpuBackend(1);
  ExportHandle handle;
  auto* memory = static_cast<char*>(owner->AllocateExported(8192, &handle));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(handle.bytes, 8192u);
  auto* mapped = static_cast<char*>(peer->Import(handle, true));
  ASSERT_NE(mapped, nullptr);
  EXPECT_NE(mapped, memory);
  std::strcpy(memory + 5000, "from the owner");
  EXPECT_STREQ(mapped + 5000, "from the owner");
  std::strcpy(mapped, "from the peer");
  EXPECT_STREQ(memory, "from the peer");
  peer->Unimport(mapped);
}

TEST(BackendMemoryTest, SealedMemoryCanOnlyBeReadByOthers) {
  const std::unique_ptr<Backend> owner = MakeCpuBackend(1), peer = MakeCpuBackend(1);
  ExportHandle handle;
  auto* memory = static_cast<char*>(owner->AllocateExported(4096, &handle));
  ASSERT_NE(memory, nullptr);
  ASSERT_TRUE(owner->SealForReaders(handle));
  EXPECT_EQ(peer->Import(handle, true), nullptr);
  const auto* mapped = static_cast<const char*>(peer->Import(handle, false));
  ASSERT_NE(mapped, nullptr);
  memory[7] = 'x';
  EXPECT_EQ(mapped[7], 'x');
}

TEST(BackendMemoryTest, ExportedMemoryCannotChangeItsSize) {
  const std::unique_ptr<Backend> owner = MakeCpuBackend(1);
  ExportHandle handle;
  ASSERT_NE(owner->AllocateExported(8192, &handle), nullptr);
  EXPECT_NE(ftruncate(handle.fd, 4096), 0);
  EXPECT_NE(ftruncate(handle.fd, 16384), 0);
}

TEST(BackendMemoryTest, ImportRefusesWrongSizesAndUnsealedFiles) {
  const std::unique_ptr<Backend> owner = MakeCpuBackend(1), peer = MakeCpuBackend(1);
  ExportHandle handle;
  ASSERT_NE(owner->AllocateExported(8192, &handle), nullptr);
  for (const size_t bytes : {size_t{0}, size_t{4096}, size_t{8193}, size_t{1} << 40}) {
    EXPECT_EQ(peer->Import({.fd = handle.fd, .ipc = {}, .bytes = bytes}, false), nullptr) << bytes;
  }
  EXPECT_EQ(peer->Import({.fd = -1, .ipc = {}, .bytes = 8192}, false), nullptr);
  const int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(unsealed, 0);
  ASSERT_EQ(ftruncate(unsealed, 8192), 0);
  EXPECT_EQ(peer->Import({.fd = unsealed, .ipc = {}, .bytes = 8192}, false), nullptr);
  close(unsealed);
}

TEST(BackendMemoryTest, CopiesAndZeroes) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  void* a = backend->Allocate(64);
  void* b = backend->Allocate(64);
  const char text[] = "sixteen letters";
  char back[sizeof(text)] = {};
  backend->CopyIn(a, text, sizeof(text));
  backend->Copy(b, a, sizeof(text));
  backend->CopyOut(back, b, sizeof(text));
  EXPECT_STREQ(back, text);
  backend->Zero(b, 64);
  backend->CopyOut(back, b, sizeof(text));
  EXPECT_EQ(back[0], 0);
}

}  // namespace
}  // namespace tandem
