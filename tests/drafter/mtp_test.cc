// The sidecar's drafts are a function of the positions fed since the slot's cold start.
#include "common/drafter/mtp/mtp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/drafter/demo.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr int kLength = 700;  // beyond the window, so that the ring turns over

using Logits = std::vector<std::vector<float>>;  // [depth][V]

class MtpTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ids_ = new std::vector<int32_t>(Demo::Get().golden()["ring_case"]["ids"]);
    base_ = new BaseSequence();
    base_->Pass(absl::MakeConstSpan(*ids_).first(kLength));
  }

  static DraftLane Lane(int begin, int end, int wanted, int slot = 0, uint32_t generation = 1) {
    return LaneOf(*ids_, base_->features, begin, end, wanted, slot, generation);
  }

  // The draft logits of `wanted` depths after positions [0, end), fed in rounds of `chunk`
  // positions that ask for `drafts_between` drafts each.
  static Logits Fed(int end, int chunk, int wanted, int drafts_between, int max_rows = 513) {
    const std::unique_ptr<Mtp> mtp = Demo::Get().MakeMtp(1, 1, max_rows);
    int begin = 0;
    for (; begin + chunk < end; begin += chunk)
      DraftOne(*mtp, Lane(begin, begin + chunk, drafts_between));
    Demo::Get().backend().draft_logits.clear();
    DraftOne(*mtp, Lane(begin, end, wanted));
    return Demo::Get().backend().draft_logits;
  }

  static std::vector<int32_t>* ids_;
  static BaseSequence* base_;
};
std::vector<int32_t>* MtpTest::ids_ = nullptr;
BaseSequence* MtpTest::base_ = nullptr;

// C38: whole, chunked and token by token give the same bits.
TEST_F(MtpTest, ChunkingChangesNothing) {
  for (const int end : {1, 2, 514, kLength}) {
    const Logits whole = Fed(end, end, 3, 0);
    ASSERT_EQ(whole.size(), 3u);
    for (const int chunk : {1, 3, 64, 513}) {
      EXPECT_EQ(Fed(end, chunk, 3, 0), whole) << "end " << end << " chunk " << chunk;
    }
  }
}

// What a chain wrote is gone once its positions are certain, however deep it was.
TEST_F(MtpTest, TentativeEntriesLeaveNoTrace) {
  const Logits fed_only = Fed(60, 1, 2, 0);
  EXPECT_EQ(Fed(60, 1, 2, kMaxDrafts), fed_only);
  EXPECT_EQ(Fed(60, 4, 2, 3), fed_only);
  // Where the chain's entries take the place of the oldest keys.
  const Logits over_the_ring = Fed(600, 9, 2, 0);
  EXPECT_EQ(Fed(600, 9, 2, kMaxDrafts), over_the_ring);
}

// Up to eight drafts; fewer are the front of more.
TEST_F(MtpTest, DeepChainContinuesTheShortOne) {
  const std::unique_ptr<Mtp> mtp = Demo::Get().MakeMtp(1);
  EXPECT_EQ(mtp->max_drafts(), 8);
  const std::vector<int32_t> deep = DraftOne(*mtp, Lane(0, 90, 100, 0, 1));
  ASSERT_EQ(deep.size(), 8u);
  for (int wanted = 0; wanted <= 8; ++wanted) {
    const std::vector<int32_t> drafts = DraftOne(*mtp, Lane(0, 90, wanted, 0, 2 + wanted));
    EXPECT_EQ(drafts, std::vector<int32_t>(deep.begin(), deep.begin() + wanted));
  }
}

// Lanes of any number, length and depth in one round equal the same lanes alone, whatever the
// groups in which they are computed.
TEST_F(MtpTest, LanesAreIndependent) {
  constexpr int kSlots = 6;
  for (const int max_lanes : {1, 2, 8}) {
    const std::unique_ptr<Mtp> together = Demo::Get().MakeMtp(kSlots, max_lanes, 600);
    const std::unique_ptr<Mtp> alone = Demo::Get().MakeMtp(kSlots);
    std::mt19937 random(4);
    std::vector<int> fed(kSlots);
    for (int round = 0; round < 8; ++round) {
      std::vector<DraftLane> lanes;
      for (int slot = 0; slot < kSlots; ++slot) {
        if (random() % 3 == 0) continue;
        const int end = fed[slot] + 1 + static_cast<int>(random() % (slot == 0 ? 120 : 5));
        lanes.push_back(Lane(fed[slot], end, static_cast<int>(random() % 5), slot, 7));
        fed[slot] = end;
      }
      std::shuffle(lanes.begin(), lanes.end(), random);
      std::vector<Drafts> drafts(lanes.size());
      together->Draft(lanes, absl::MakeSpan(drafts));
      for (size_t i = 0; i < lanes.size(); ++i) {
        EXPECT_EQ(std::vector<int32_t>(drafts[i].tokens, drafts[i].tokens + drafts[i].count),
                  DraftOne(*alone, lanes[i]));
        EXPECT_EQ(drafts[i].count, lanes[i].wanted);
      }
    }
  }
}

// A new generation, or a gap, starts the slot cold: the result is that of an untouched drafter fed
// from the lane's first position on.
TEST_F(MtpTest, ColdStart) {
  const auto cold = [](const DraftLane& lane) { return DraftOne(*Demo::Get().MakeMtp(1), lane); };
  const std::unique_ptr<Mtp> mtp = Demo::Get().MakeMtp(1);
  DraftOne(*mtp, Lane(0, 50, 3));
  EXPECT_EQ(DraftOne(*mtp, Lane(50, 60, 8, 0, 2)), cold(Lane(50, 60, 8)));
  // Position 61 instead of 60.
  EXPECT_EQ(DraftOne(*mtp, Lane(61, 62, 8, 0, 2)), cold(Lane(61, 62, 8)));
  // Back to an earlier position.
  EXPECT_EQ(DraftOne(*mtp, Lane(10, 20, 8, 0, 2)), cold(Lane(10, 20, 8)));
  // Continuing differs from cold: the ring is really used.
  EXPECT_NE(DraftOne(*mtp, Lane(20, 21, 8, 0, 2)), cold(Lane(20, 21, 8)));
}

TEST_F(MtpTest, RefusesImpossibleLanes) {
  const std::unique_ptr<Mtp> mtp = Demo::Get().MakeMtp(2);
  const DraftLane good = Lane(0, 5, 2);
  std::vector<DraftLane> lanes(8, good);
  lanes[0].slot = 2;
  lanes[1].slot = -1;
  lanes[2].count = 0;
  lanes[3].position = -1;
  lanes[4].wanted = -1;
  lanes[5].features = nullptr;
  const std::vector<int32_t> tokens = {1, 2, Demo::Get().vocab(), 4, 5};
  lanes[6].next_tokens = tokens.data();
  lanes.push_back(good);  // its slot was served by lanes[7]
  std::vector<Drafts> drafts(lanes.size(), Drafts{.count = 5});
  mtp->Draft(lanes, absl::MakeSpan(drafts));
  for (size_t i = 0; i < lanes.size(); ++i) EXPECT_EQ(drafts[i].count, i == 7 ? 2 : 0) << i;
  // The refused lanes left the slot alone.
  EXPECT_EQ(DraftOne(*mtp, Lane(5, 9, 3)), DraftOne(*Demo::Get().MakeMtp(1), Lane(0, 9, 3)));
}

// The keys of 3 slots are 3 * 520 * 512 + 32 floats, their values 32 fewer; or not even the weights
// fit.
TEST_F(MtpTest, TooLittleMemoryNamesTheSizes) {
  const auto error_with = [](size_t limit) {
    RecordingBackend backend(MakeCpuBackend(1));
    backend.allocation_limit = limit;
    const MtpFile& file = Demo::Get().sidecar();
    const int vocab = Demo::Get().vocab();
    const std::vector<float> table(static_cast<size_t>(vocab) * file.config().width);
    return Mtp::Create(&backend, file,
                       {.vocab = vocab,
                        .embedding = table.data(),
                        .head = {.rows = vocab, .cols = file.config().width, .data = table.data()},
                        .slots = 3,
                        .max_lanes = 1,
                        .max_rows = 1})
        .status();
  };
  const absl::Status no_rings = error_with(3000000);
  EXPECT_EQ(no_rings.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(no_rings.message()), HasSubstr("3 slots of 520 keys"));
  EXPECT_THAT(std::string(no_rings.message()), HasSubstr("6389888 more bytes"));
  const absl::Status no_weights = error_with(1000);
  EXPECT_EQ(no_weights.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(no_weights.message()), HasSubstr("lh.weight"));
}

}  // namespace
}  // namespace tandem
