// A drafter's attention on CUDA against the CPU: rings, windows and independence of rows.
#include "kernels/attend/attend.h"
#include "tests/gpu/sidecar_values.h"

namespace tandem {
namespace {

constexpr int kSlots = 3;

struct AttendValues {
  AttendValues(SidecarValues& values, int c)
      : width(c),
        query(values.Random(kAttendQueryWidth, c)),
        key(values.Random(kAttendKeyWidth, c)),
        value(values.Random(kAttendKeyWidth, c)),
        gate(values.Random(kAttendQueryWidth, c)),
        output(values.Random(c, kAttendQueryWidth)),
        ln1_weight(values.Vector(c, 0.2f, 1.0f)),
        ln1_bias(values.Vector(c, 0.2f)),
        ln2_weight(values.Vector(c, 0.2f, 1.0f)),
        ln2_bias(values.Vector(c, 0.2f)),
        // Large norms make the softmax uneven.
        q_norm(values.Vector(kAttendHeadWidth, 0.2f, 2.0f)),
        k_norm(values.Vector(kAttendHeadWidth, 0.2f, 2.0f)) {}
  int width;
  HostMatrix query, key, value, gate, output;
  std::vector<float> ln1_weight, ln1_bias, ln2_weight, ln2_bias, q_norm, k_norm;
};

// One row of the op.
struct Entry {
  int slot = 0;
  int64_t position = 0;
  int64_t first = 0;
  bool asks = false;
  std::vector<float> x = {};
};

struct AttendResult {
  std::vector<float> x, z;  // [Q, C]
};

// The op and its rings on one backend.
class Attention final {
 public:
  Attention(Backend& backend, const AttendValues& values, int window, int ring_size)
      : backend_(backend),
        memory_(backend),
        width_(values.width),
        window_(window),
        ring_size_(ring_size),
        args_{.width = values.width,
              .ring_size = ring_size,
              .window = window,
              .ln1_weight = memory_.In(values.ln1_weight),
              .ln1_bias = memory_.In(values.ln1_bias),
              .ln2_weight = memory_.In(values.ln2_weight),
              .ln2_bias = memory_.In(values.ln2_bias),
              .q_norm = memory_.In(values.q_norm),
              .k_norm = memory_.In(values.k_norm),
              .query = Put(backend, values.query),
              .key = Put(backend, values.key),
              .value = Put(backend, values.value),
              .gate = Put(backend, values.gate),
              .output = Put(backend, values.output),
              .keys = memory_.Out<float>(RingFloats() + kAttendKeyPadding),
              .values = memory_.Out<float>(RingFloats())} {}

  AttendResult Run(const std::vector<Entry>& entries) {
    std::vector<float> x;
    std::vector<int32_t> slots, query_rows;
    std::vector<int64_t> positions, first;
    for (const Entry& entry : entries) {
      if (entry.asks) query_rows.push_back(static_cast<int32_t>(slots.size()));
      x.insert(x.end(), entry.x.begin(), entry.x.end());
      slots.push_back(entry.slot);
      positions.push_back(entry.position);
      first.push_back(entry.first);
    }
    const size_t queries = query_rows.size();
    const View<float> x_out = memory_.Out<float>(queries * width_);
    const View<float> z = memory_.Out<float>(queries * width_);
    // In another order than the queries.
    std::vector<float*> z_rows;
    for (size_t i = queries; i-- > 0;) z_rows.push_back(z.data + i * width_);
    AttendArgs args = args_;
    args.rows = static_cast<int>(slots.size());
    args.queries = static_cast<int>(queries);
    args.x = memory_.In(x);
    args.slots = memory_.In(slots);
    args.positions = memory_.In(positions);
    args.first = memory_.In(first);
    args.query_rows = memory_.In(query_rows);
    args.x_out = x_out;
    const View<float*> pointers = memory_.In(z_rows);
    args.z = {pointers.data, pointers.size};
    args.scratch = memory_.Out<float>(AttendScratch(slots.size(), queries, width_, window_));
    backend_.Attend(args);
    std::vector<int> reversed;
    for (size_t i = queries; i-- > 0;) reversed.push_back(static_cast<int>(i));
    return {.x = memory_.Read(x_out), .z = Select(memory_.Read(z), reversed, width_)};
  }

  std::vector<float> Keys() { return memory_.Read(args_.keys); }
  std::vector<float> Values() { return memory_.Read(args_.values); }

 private:
  size_t RingFloats() const { return static_cast<size_t>(kSlots) * ring_size_ * kAttendKeyWidth; }

  Backend& backend_;
  OnDevice memory_;
  size_t width_;
  int window_, ring_size_;
  AttendArgs args_;
};

class AttendCudaTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    cuda_ = CudaOrNull();
    if (cuda_ == nullptr) GTEST_SKIP() << "no CUDA device";
  }

  // The next `count` positions of a slot, of which the last `asking` ask.
  std::vector<Entry> Feed(int slot, int count, int asking) {
    std::vector<Entry> entries;
    for (int i = 0; i < count; ++i) {
      entries.push_back({.slot = slot,
                         .position = next_[slot]++,
                         .first = first_[slot],
                         .asks = i >= count - asking,
                         .x = random_.Vector(GetParam())});
    }
    return entries;
  }
  void StartAt(int slot, int64_t position) { next_[slot] = first_[slot] = position; }

  static void ExpectSame(const std::vector<float>& cuda_ring, const std::vector<float>& cpu_ring) {
    ASSERT_EQ(cuda_ring.size(), cpu_ring.size());
    for (size_t i = 0; i < cuda_ring.size(); ++i) {
      if (std::isnan(cpu_ring[i])) {
        ASSERT_TRUE(std::isnan(cuda_ring[i])) << "written without need: " << i;
      } else {
        ASSERT_NEAR(cuda_ring[i], cpu_ring[i], 1e-3f) << i;
      }
    }
  }

  std::unique_ptr<Backend> cuda_;
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend(0);
  SidecarValues random_{static_cast<uint64_t>(GetParam())};
  int64_t next_[kSlots] = {};
  int64_t first_[kSlots] = {};
};

// Ragged feeds of three slots, one from the start, one far beyond it and one that starts again in
// the middle: the windows fill, slide, and the rings turn over.
TEST_P(AttendCudaTest, EqualsTheCpu) {
  const AttendValues values(random_, GetParam());
  for (const int window : {1, 6, 77}) {
    const int ring_size = window + 9;
    Attention cuda(*cuda_, values, window, ring_size);
    Attention cpu(*cpu_, values, window, ring_size);
    StartAt(0, 0);
    StartAt(1, (int64_t{1} << 20) - 3);
    StartAt(2, 12345);
    for (int round = 0; round < 40; ++round) {
      if (round == 20) StartAt(2, 99);
      std::vector<Entry> entries;
      for (int slot = 0; slot < kSlots; ++slot) {
        const int count = random_.Int(0, std::min(9, ring_size - window + 1));
        for (Entry& entry : Feed(slot, count, random_.Int(0, std::min(2, count))))
          entries.push_back(std::move(entry));
      }
      if (entries.empty()) continue;
      const AttendResult got = cuda.Run(entries);
      const AttendResult want = cpu.Run(entries);
      ExpectClose(got.x, want.x, "x");
      ExpectClose(got.z, want.z, "z");
    }
    ExpectSame(cuda.Keys(), cpu.Keys());
    ExpectSame(cuda.Values(), cpu.Values());
  }
}

// A prompt as long as the ring takes, then drafts: the window of published sidecars.
TEST_P(AttendCudaTest, PromptThenDrafts) {
  constexpr int kWindow = 512;
  constexpr int kRing = kWindow + 8;
  const AttendValues values(random_, GetParam());
  Attention cuda(*cuda_, values, kWindow, kRing);
  Attention cpu(*cpu_, values, kWindow, kRing);
  StartAt(1, 700);
  std::vector<Entry> entries = Feed(1, kWindow + 1, 2);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const AttendResult got = cuda.Run(entries);
    const AttendResult want = cpu.Run(entries);
    ExpectClose(got.x, want.x, "x");
    ExpectClose(got.z, want.z, "z");
    entries = Feed(1, 1 + round % 2, 1);
  }
  ExpectSame(cuda.Keys(), cpu.Keys());
  ExpectSame(cuda.Values(), cpu.Values());
}

// Many rows of three slots in one call, some of them asking, equal the same rows one by one and in
// another order of slots: bit for bit.
TEST_P(AttendCudaTest, RowsAreIndependent) {
  constexpr int kWindow = 40;
  constexpr int kRing = kWindow + 8;
  const AttendValues values(random_, GetParam());
  std::vector<Entry> together, apart;
  for (int slot = 0; slot < kSlots; ++slot) {
    StartAt(slot, 100 * slot);
    const std::vector<Entry> entries = Feed(slot, kWindow + 1 - 13 * slot, 2);
    together.insert(together.end(), entries.begin(), entries.end());
    apart.insert(apart.begin(), entries.begin(), entries.end());
  }
  Attention cuda(*cuda_, values, kWindow, kRing);
  const AttendResult whole = cuda.Run(together);
  Attention one_by_one(*cuda_, values, kWindow, kRing);
  int query = 2 * kSlots;
  for (size_t i = 0; i < apart.size(); ++i) {
    const AttendResult alone = one_by_one.Run({apart[i]});
    if (!apart[i].asks) continue;
    // The last slot came first.
    if (i == 0 || !apart[i - 1].asks) query -= 2;
    const int index = query + (i > 0 && apart[i - 1].asks ? 1 : 0);
    EXPECT_TRUE(SameRow(whole.x, index, alone.x)) << index;
    EXPECT_TRUE(SameRow(whole.z, index, alone.z)) << index;
  }
  EXPECT_EQ(query, 0);
  EXPECT_TRUE(SameBits(cuda.Keys(), one_by_one.Keys()));
  EXPECT_TRUE(SameBits(cuda.Values(), one_by_one.Values()));
}

INSTANTIATE_TEST_SUITE_P(Widths, AttendCudaTest, testing::Values(256, 2560),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem
