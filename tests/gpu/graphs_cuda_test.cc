// Recorded work: replayed on what lies in memory then, and forgotten when others are used more.

#include "gtest/gtest.h"
#include "tests/gpu/on_device.h"

namespace tandem {
namespace {

// Work on four numbers: out = in, then the first `zeroed` of out are zeroed.
class Recorder final {
 public:
  explicit Recorder(Backend& backend) : backend_(backend), device_(backend) {
    in_ = device_.Out<int>(4);
    out_ = device_.Out<int>(4);
  }

  std::vector<int> Run(const std::vector<int>& values, uint64_t zeroed) {
    backend_.CopyIn(in_.data, values.data(), values.size() * sizeof(int));
    backend_.RunRecorded({.owner = out_.data, .values = {zeroed}}, [&] {
      ++calls;
      backend_.Copy(out_.data, in_.data, 4 * sizeof(int));
      backend_.Zero(out_.data, zeroed * sizeof(int));
    });
    return device_.Read(out_);
  }

  int calls = 0;

 private:
  Backend& backend_;
  OnDevice device_;
  View<int> in_, out_;  // [4]
};

TEST(GraphsCudaTest, ReplaysOnNewContents) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  Recorder recorder(*cuda);
  EXPECT_EQ(recorder.Run({1, 2, 3, 4}, 1), (std::vector<int>{0, 2, 3, 4}));
  const int calls = recorder.calls;
  EXPECT_EQ(recorder.Run({5, 6, 7, 8}, 1), (std::vector<int>{0, 6, 7, 8}));
  EXPECT_EQ(recorder.Run({9, 9, 9, 9}, 1), (std::vector<int>{0, 9, 9, 9}));
  EXPECT_EQ(recorder.calls, calls);
  EXPECT_EQ(recorder.Run({5, 6, 7, 8}, 2), (std::vector<int>{0, 0, 7, 8}));
  EXPECT_EQ(cuda->graph_counts().kept, 2);
  EXPECT_EQ(cuda->graph_counts().recorded, 2);
  EXPECT_EQ(cuda->graph_counts().replayed, 2);
}

TEST(GraphsCudaTest, OwnersDoNotShareKeys) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  Recorder first(*cuda), second(*cuda);
  EXPECT_EQ(first.Run({1, 2, 3, 4}, 3), (std::vector<int>{0, 0, 0, 4}));
  EXPECT_EQ(second.Run({5, 6, 7, 8}, 3), (std::vector<int>{0, 0, 0, 8}));
  EXPECT_EQ(first.Run({1, 2, 3, 9}, 3), (std::vector<int>{0, 0, 0, 9}));
  EXPECT_EQ(cuda->graph_counts().kept, 2);
}

TEST(GraphsCudaTest, TheLeastRecentlyUsedGoesFirst) {
  const CudaStart start = MakeCudaBackend({.most_graphs = 2});
  if (start.backend == nullptr) GTEST_SKIP() << "no CUDA device";
  Backend& cuda = *start.backend;
  Recorder recorder(cuda);
  const auto recorded = [&](uint64_t zeroed) {
    const int64_t before = cuda.graph_counts().recorded;
    std::vector<int> expected = {1, 2, 3, 4};
    std::fill(expected.begin(), expected.begin() + static_cast<int>(zeroed), 0);
    EXPECT_EQ(recorder.Run({1, 2, 3, 4}, zeroed), expected);
    EXPECT_LE(cuda.graph_counts().kept, 2);
    return cuda.graph_counts().recorded > before;
  };
  EXPECT_TRUE(recorded(1));
  EXPECT_TRUE(recorded(2));
  EXPECT_FALSE(recorded(1));
  EXPECT_TRUE(recorded(3));  // in the place of 2
  EXPECT_FALSE(recorded(1));
  EXPECT_TRUE(recorded(2));  // in the place of 3
  EXPECT_FALSE(recorded(1));
}

}  // namespace
}  // namespace tandem
