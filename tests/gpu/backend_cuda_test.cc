#include "kernels/backend_cuda.h"

#include <cstdint>
#include <numeric>
#include <thread>

#include "gtest/gtest.h"
#include "tests/gpu/on_device.h"

namespace tandem {
namespace {

TEST(BackendCudaTest, ThereIsABackendOrAReason) {
  const CudaStart start = MakeCudaBackend({});
  EXPECT_NE(start.backend == nullptr, start.refused.empty()) << start.refused;
}

TEST(BackendCudaTest, ADeviceThatIsNotThereIsNamed) {
  if (CudaOrNull() == nullptr) GTEST_SKIP() << "no CUDA device";
  for (const int device : {-1, 99}) {
    const CudaStart start = MakeCudaBackend({.device = device});
    EXPECT_EQ(start.backend, nullptr);
    EXPECT_NE(start.refused.find("device " + std::to_string(device)), std::string::npos)
        << start.refused;
  }
}

TEST(BackendCudaTest, TheDeviceIsDescribed) {
  const CudaStart start = MakeCudaBackend({});
  if (start.backend == nullptr) GTEST_SKIP() << "no CUDA device";
  EXPECT_STREQ(start.backend->name(), "cuda");
  EXPECT_GE(start.backend->threads(), 1);
  EXPECT_FALSE(start.device.name.empty());
  EXPECT_EQ(start.device.uuid.size(),
            std::string("GPU-01234567-89ab-cdef-0123-456789abcdef").size());
  EXPECT_GE(start.device.compute_major, 8);
  EXPECT_GT(start.device.l2_bytes, size_t{1} << 20);
  EXPECT_GT(start.device.free_memory_bytes, 0u);
  EXPECT_LE(start.device.free_memory_bytes, start.device.memory_bytes);
}

TEST(BackendCudaTest, MemoryIsZeroedAndAligned) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  OnDevice device(*cuda);
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{5000}, size_t{7} << 20}) {
    ExportHandle handle;
    for (void* memory : {cuda->Allocate(bytes), cuda->AllocateExported(bytes, &handle)}) {
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
      EXPECT_EQ(device.Read(View<uint8_t>{static_cast<uint8_t*>(memory), bytes}),
                std::vector<uint8_t>(bytes, 0));
    }
    EXPECT_EQ(handle.bytes, bytes);
  }
}

TEST(BackendCudaTest, TooMuchMemoryIsNullAndLeavesTheBackendWhole) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  ExportHandle handle;
  EXPECT_EQ(cuda->Allocate(size_t{1} << 50), nullptr);
  EXPECT_EQ(cuda->AllocateExported(size_t{1} << 50, &handle), nullptr);
  EXPECT_EQ(cuda->AllocateExported(SIZE_MAX, &handle), nullptr);
  OnDevice device(*cuda);
  EXPECT_EQ(device.Read(device.In<int>({1, 2, 3})), (std::vector<int>{1, 2, 3}));
}

// Sizes around those of the pinned parts that copies go through, and several times these.
TEST(BackendCudaTest, CopiesOfEverySizeArriveAlthoughTheSourceIsReused) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  OnDevice device(*cuda);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{1} << 20,
                             (size_t{1} << 20) + 1, (size_t{2} << 20) + 3, size_t{13} << 20}) {
    SCOPED_TRACE(count);
    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), 7u);
    const std::vector<uint32_t> expected = values;
    const View<uint32_t> memory = device.In(values);
    std::fill(values.begin(), values.end(), 0u);
    EXPECT_EQ(device.Read(memory), expected);
  }
}

TEST(BackendCudaTest, ManySmallCopiesKeepTheirOrder) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  constexpr int kCopies = 3000;
  constexpr size_t kCount = 3001;  // 36 MB in all, which goes through the pinned memory twice
  OnDevice device(*cuda);
  const View<int> memory = device.Out<int>(kCount);
  std::vector<int> ends(kCopies);
  for (int i = 0; i < kCopies; ++i) {
    const std::vector<int> values(kCount, i);
    cuda->CopyIn(memory.data, values.data(), kCount * sizeof(int));
    cuda->CopyOut(&ends[static_cast<size_t>(i)], memory.data + i, sizeof(int));
  }
  cuda->Wait();
  for (int i = 0; i < kCopies; ++i) EXPECT_EQ(ends[static_cast<size_t>(i)], i);
}

TEST(BackendCudaTest, CopyAndZeroAreOrdered) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  OnDevice device(*cuda);
  const View<int> a = device.In<int>({1, 2, 3, 4});
  const View<int> b = device.Out<int>(4);
  cuda->Copy(b.data, a.data, 4 * sizeof(int));
  cuda->Zero(a.data + 1, 2 * sizeof(int));
  EXPECT_EQ(device.Read(a), (std::vector<int>{1, 0, 0, 4}));
  EXPECT_EQ(device.Read(b), (std::vector<int>{1, 2, 3, 4}));
  cuda->Copy(b.data, a.data, 0);
  cuda->Zero(b.data, 0);
  EXPECT_EQ(device.Read(b), (std::vector<int>{1, 2, 3, 4}));
}

TEST(BackendCudaTest, AnotherThreadMayUseIt) {
  std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  std::vector<int> read;
  std::thread user([&] {
    OnDevice device(*cuda);
    read = device.Read(device.In<int>({4, 5}));
    cuda.reset();
  });
  user.join();
  EXPECT_EQ(read, (std::vector<int>{4, 5}));
}

}  // namespace
}  // namespace tandem
