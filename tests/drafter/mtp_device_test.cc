// Drafts of rounds whose accepted drafts only the device knows are those of rounds that bring them
// from the host, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/drafter/mtp/mtp.h"
#include "tests/drafter/demo.h"

namespace tandem {
namespace {

constexpr int kLength = 700;  // beyond the window, so that the ring turns over
constexpr uint64_t kEpoch = 5;

class MtpDeviceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ids_ = new std::vector<int32_t>(Demo::Get().golden()["ring_case"]["ids"]);
    base_ = new BaseSequence();
    base_->Pass(absl::MakeConstSpan(*ids_).first(kLength));
  }

  // Positions [begin, begin + accepted + 1) of a lane that had `drafts` rows of drafts.
  struct Part {
    int slot = 0, begin = 0, certain = 1, accepted = 0, drafts = 0, wanted = 0;
    bool chooses = true;
    int end() const { return begin + certain + accepted; }
  };

  // The features of drafts that were not accepted are those of other positions.
  static DraftLane Known(const Part& part) {
    const size_t width = static_cast<size_t>(Demo::Get().feature_width());
    const auto at = [&](int position) {
      return base_->features.begin() + position * static_cast<int64_t>(width);
    };
    std::vector<float> rows(at(part.begin), at(part.end()));
    rows.insert(rows.end(), at(3), at(3 + part.drafts - part.accepted));
    return {.slot = part.slot,
            .generation = 1,
            .count = part.certain,
            .wanted = part.wanted,
            .position = part.begin,
            .features = Demo::Get().OnBackend(rows),
            .next_tokens = ids_->data() + part.begin + 1};
  }

  // The round on the device; checks that what was fed is what was accepted.
  std::vector<Drafts> Device(const std::vector<Part>& parts) {
    ++step_;
    std::vector<CertainRecord> certain(parts.size());
    std::vector<DraftRecord> answers(parts.size());
    std::vector<DeviceDraftLane> lanes;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      certain[i] = {.epoch = kEpoch,
                    .step = step_,
                    .slot = part.slot,
                    .generation = 8,
                    .emitted = part.chooses ? part.accepted + 1 : 0};
      for (int r = 0; r < certain[i].emitted; ++r)
        certain[i].tokens[r] = (*ids_)[static_cast<size_t>(part.begin + part.certain + r)];
      lanes.push_back({.known = Known(part),
                       .drafts = part.drafts,
                       .chooses = part.chooses,
                       .record = static_cast<int32_t>(i),
                       .generation = 8});
    }
    RoundTimes times;
    std::vector<int32_t> fed(parts.size());
    device_->Enqueue({.epoch = kEpoch,
                      .step = step_,
                      .certain = {certain.data(), certain.size()},
                      .answers = {answers.data(), answers.size()},
                      .times = &times},
                     lanes);
    device_->Finish(absl::MakeSpan(fed));
    EXPECT_GT(times.started, 0u);
    EXPECT_GE(times.finished, times.started);
    std::vector<Drafts> drafts(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(fed[i], parts[i].end() - parts[i].begin);
      EXPECT_EQ(answers[i].step, step_);
      EXPECT_EQ(answers[i].slot, parts[i].slot);
      drafts[i].count = answers[i].count;
      std::copy_n(answers[i].tokens, answers[i].count, drafts[i].tokens);
    }
    return drafts;
  }

  std::vector<Drafts> Host(const std::vector<Part>& parts) {
    std::vector<DraftLane> lanes;
    for (const Part& part : parts) {
      lanes.push_back(LaneOf(*ids_, base_->features, part.begin, part.end(), part.wanted, part.slot,
                             /*generation=*/1));
    }
    std::vector<Drafts> drafts(parts.size());
    host_->Draft(lanes, absl::MakeSpan(drafts));
    return drafts;
  }

  void ExpectSame(const std::vector<Part>& parts) {
    const std::vector<Drafts> device = Device(parts), host = Host(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSERT_EQ(device[i].count, host[i].count);
      for (int k = 0; k < host[i].count; ++k) {
        ASSERT_EQ(device[i].tokens[k], host[i].tokens[k])
            << "slot " << parts[i].slot << " position " << parts[i].begin << " draft " << k;
      }
    }
  }

  static std::vector<int32_t>* ids_;
  static BaseSequence* base_;
  const std::unique_ptr<Mtp> device_ = Demo::Get().MakeMtp(3), host_ = Demo::Get().MakeMtp(3);
  uint64_t step_ = 0;
};
std::vector<int32_t>* MtpDeviceTest::ids_ = nullptr;
BaseSequence* MtpDeviceTest::base_ = nullptr;

// Every number of drafts with every number of them accepted, over more than the ring.
TEST_F(MtpDeviceTest, EveryAcceptanceGivesTheHostsDrafts) {
  ExpectSame({{.begin = 0, .certain = 90, .wanted = kMaxDrafts}});
  int position = 90;
  while (position < kLength - 20) {
    for (int drafts = 0; drafts <= kMaxDrafts; ++drafts) {
      for (int accepted = 0; accepted <= drafts && position < kLength - 20; ++accepted) {
        ExpectSame(
            {{.begin = position, .accepted = accepted, .drafts = drafts, .wanted = kMaxDrafts}});
        position += 1 + accepted;
      }
    }
  }
}

// Rows that were not accepted stand where the oldest keys of the window stood.
TEST_F(MtpDeviceTest, RejectedRowsOverTheRingChangeNothing) {
  ExpectSame({{.begin = 0, .certain = 530, .wanted = 1}});
  for (int position = 530; position < 600; ++position)
    ExpectSame({{.begin = position, .drafts = kMaxDrafts, .wanted = kMaxDrafts}});
}

TEST_F(MtpDeviceTest, LanesOfAllKindsTogether) {
  std::mt19937 random(5);
  std::vector<int> positions = {0, 3, 50};
  for (int round = 0; round < 60; ++round) {
    std::vector<Part> parts;
    for (int slot = 0; slot < 3; ++slot) {
      if (random() % 5 == 0) continue;
      Part part = {.slot = slot, .begin = positions[static_cast<size_t>(slot)]};
      part.wanted = static_cast<int>(random() % (kMaxDrafts + 1));
      if (random() % 4 == 0) {  // a part of a prompt, or its end
        part.certain = 1 + static_cast<int>(random() % 9);
        part.chooses = random() % 2 == 0;
        if (!part.chooses) part.wanted = 0;
      } else {
        part.drafts = static_cast<int>(random() % (kMaxDrafts + 1));
        part.accepted = static_cast<int>(random() % static_cast<unsigned>(part.drafts + 1));
      }
      // Sometimes a position is left out, so that the slot starts cold.
      positions[static_cast<size_t>(slot)] = part.end() + (random() % 15 == 0);
      parts.push_back(part);
    }
    ExpectSame(parts);
  }
}

TEST_F(MtpDeviceTest, DraftsBehindSeveralCertainPositionsAreRefused) {
  std::vector<CertainRecord> certain(1);
  std::vector<DraftRecord> answers(1);
  DeviceDraftLane lane = {.known = Known({.certain = 2}), .drafts = 1};
  std::vector<int32_t> fed = {-1};
  const DeviceRound round = {
      .epoch = kEpoch, .step = 1, .certain = {certain.data(), 1}, .answers = {answers.data(), 1}};
  device_->Enqueue(round, {&lane, 1});
  device_->Finish(absl::MakeSpan(fed));
  EXPECT_EQ(fed[0], 0);
  EXPECT_EQ(answers[0].step, 0u);
}

// What a round that was not the lane's left behind is forgotten.
TEST_F(MtpDeviceTest, AfterARecordOfSomethingElseTheSlotIsCold) {
  ExpectSame({{.begin = 0, .certain = 60, .wanted = 3}});
  std::vector<CertainRecord> certain = {{.epoch = kEpoch + 1}};
  std::vector<DraftRecord> answers(1);
  const DeviceDraftLane lane = {.known = Known({.begin = 60, .wanted = 3}), .drafts = 2};
  std::vector<int32_t> fed = {-1};
  device_->Enqueue({.epoch = kEpoch,
                    .step = ++step_,
                    .certain = {certain.data(), 1},
                    .answers = {answers.data(), 1}},
                   {&lane, 1});
  device_->Finish(absl::MakeSpan(fed));
  EXPECT_EQ(fed[0], 0);
  EXPECT_EQ(answers[0].count, 0);
  // The host's drafter starts cold at the same place: it is asked for a gap.
  Host({{.begin = 200, .wanted = 1}});
  ExpectSame({{.begin = 61, .wanted = 8}});
  ExpectSame({{.begin = 62, .accepted = 3, .drafts = 5, .wanted = 8}});
}

}  // namespace
}  // namespace tandem
