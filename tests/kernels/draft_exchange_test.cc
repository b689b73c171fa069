// What crosses between verifier and drafter, worked out by hand.
#include "kernels/draft_exchange/draft_exchange.h"

#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/backend.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kEpoch = 9, kStep = 4;
constexpr int kVocab = 50, kWidth = 2;

template <class T>
View<T> ViewOf(std::vector<T>& values) {
  return {values.data(), values.size()};
}

class DraftExchangeTest : public ::testing::Test {
 protected:
  // Two drafts of slot 5 for a lane whose three rows follow row 1.
  void Take(bool came = true) {
    std::vector<DraftTakeLane> lanes = {
        {.record = 0, .slot = 5, .generation = 2, .count = 3, .first_row = 2, .first_logit = 1}};
    tokens_.assign(5, 7);
    row_tokens_.assign(4, 7);
    DraftTakeArgs args = {.epoch = kEpoch, .step = kStep, .vocab = kVocab};
    if (came) args.records = {&record_, 1};
    args.times = &times_;
    args.lanes = ViewOf(lanes);
    args.tokens = ViewOf(tokens_);
    args.row_tokens = ViewOf(row_tokens_);
    args.taken = {&taken_, 1};
    args.clock = {clock_, 4};
    backend_->DraftTake(args);
  }
  void ExpectTaken(int count, int32_t first, int32_t second) {
    EXPECT_EQ(taken_, count);
    EXPECT_THAT(tokens_, ElementsAre(7, 7, std::max(first, 0), std::max(second, 0), 0));
    EXPECT_THAT(row_tokens_, ElementsAre(7, first, second, -1));
  }

  const std::unique_ptr<Backend> backend_ = MakeCpuBackend(1);
  DraftRecord record_ = {.epoch = kEpoch,
                         .step = kStep,
                         .generation = 2,
                         .slot = 5,
                         .count = 2,
                         .tokens = {30, 31, 32}};
  RoundTimes times_ = {.published = 11, .started = 12, .finished = 13};
  std::vector<int32_t> tokens_, row_tokens_;
  int32_t taken_ = -1;
  uint64_t clock_[4] = {};
};

TEST_F(DraftExchangeTest, DraftsGoIntoTheirRowsAndTheRestEqualsNothing) {
  Take();
  ExpectTaken(2, 30, 31);
  EXPECT_EQ(clock_[0], 11u);
  EXPECT_EQ(clock_[1], 12u);
  EXPECT_EQ(clock_[2], 13u);
  EXPECT_GT(clock_[3], 0u);
}

TEST_F(DraftExchangeTest, WithoutRecordsNothingComes) {
  Take(/*came=*/false);
  ExpectTaken(0, -1, -1);
}

TEST_F(DraftExchangeTest, ARecordOfAnotherLaneOrRoundIsNoDraft) {
  const DraftRecord right = record_;
  ++record_.epoch;
  Take();
  ExpectTaken(0, -1, -1);
  record_ = right;
  --record_.step;
  Take();
  ExpectTaken(0, -1, -1);
  record_ = right;
  ++record_.generation;
  Take();
  ExpectTaken(0, -1, -1);
  record_ = right;
  record_.slot = -5;
  Take();
  ExpectTaken(0, -1, -1);
}

TEST_F(DraftExchangeTest, CountsAndIdsOutOfRangeAreCut) {
  record_.count = -1;
  Take();
  ExpectTaken(0, -1, -1);
  record_.count = 1 << 30;
  Take();
  EXPECT_EQ(taken_, 3);
  record_.tokens[1] = kVocab;
  Take();
  ExpectTaken(1, 30, -1);
  record_.tokens[0] = -1;
  record_.tokens[1] = 31;
  Take();
  ExpectTaken(0, -1, -1);
}

TEST_F(DraftExchangeTest, PublishesWhatEachLaneChose) {
  std::vector<DraftPublishLane> lanes = {{.pass_lane = 1, .slot = 6, .generation = 3},
                                         {.pass_lane = 0, .slot = 7, .generation = 4}};
  std::vector<int32_t> emitted = {0, 2}, tokens(2 * (kMaxDrafts + 1), -7);
  tokens[kMaxDrafts + 1] = 41;
  tokens[kMaxDrafts + 2] = 42;
  std::vector<CertainRecord> records(2);
  backend_->DraftPublish({.epoch = kEpoch,
                          .step = kStep,
                          .lanes = ViewOf(lanes),
                          .emitted = ViewOf(emitted),
                          .tokens = ViewOf(tokens),
                          .records = ViewOf(records),
                          .times = &times_});
  EXPECT_EQ(records[0].epoch, kEpoch);
  EXPECT_EQ(records[0].step, kStep);
  EXPECT_EQ(records[0].slot, 6);
  EXPECT_EQ(records[0].generation, 3u);
  EXPECT_EQ(records[0].emitted, 2);
  EXPECT_EQ(records[0].tokens[0], 41);
  EXPECT_EQ(records[0].tokens[1], 42);
  EXPECT_EQ(records[1].slot, 7);
  EXPECT_EQ(records[1].emitted, 0);
  EXPECT_GT(times_.published, 13u);
}

// One certain row at position 20 and four rows of drafts, of which `emitted - 1` were accepted.
class DraftResolveTest : public ::testing::Test {
 protected:
  void Resolve() {
    tokens_.assign(6, 7);
    query_rows_.assign(2, 7);
    z_.assign(2, nullptr);
    DraftResolveArgs args = {.epoch = kEpoch, .step = kStep, .vocab = kVocab, .width = kWidth};
    args.records = {&record_, 1};
    args.lanes = {&lane_, 1};
    args.shifts = shifts_;
    args.no_z = no_z_;
    args.unused_z = unused_z_;
    args.tokens = ViewOf(tokens_);
    args.query_rows = ViewOf(query_rows_);
    args.z = ViewOf(z_);
    args.z_prev = {&z_prev_, 1};
    for (int k = 2; k <= 3; ++k) args.draft_positions[k] = {&positions_[k], 1};
    args.fed = {&fed_, 1};
    backend_->DraftResolve(args);
  }
  float* Shift(int slot, int parity) { return shifts_ + (slot * 2 + parity) * kWidth; }

  const std::unique_ptr<Backend> backend_ = MakeCpuBackend(1);
  CertainRecord record_ = {.epoch = kEpoch,
                           .step = kStep,
                           .slot = 1,
                           .generation = 2,
                           .emitted = 3,
                           .tokens = {40, 41, 42, 43}};
  DraftResolveLane lane_ = {.record = 0,
                            .slot = 1,
                            .generation = 2,
                            .row = 1,
                            .count = 1,
                            .drafts = 4,
                            .chooses = 1,
                            .second = 1,
                            .wanted = 3,
                            .cold = 0,
                            .position = 20};
  float shifts_[2 * 2 * kWidth], no_z_[kWidth], unused_z_[kWidth];
  std::vector<int32_t> tokens_, query_rows_;
  std::vector<float*> z_;
  float* z_prev_ = nullptr;
  int64_t positions_[4] = {};
  int32_t fed_ = -1;
};

TEST_F(DraftResolveTest, AcceptedDraftsAreCertain) {
  Resolve();
  EXPECT_EQ(fed_, 3);
  EXPECT_THAT(tokens_, ElementsAre(7, 40, 41, 42, 0, 0));
  EXPECT_THAT(query_rows_, ElementsAre(3, 2));  // positions 22 and 21
  EXPECT_THAT(z_, ElementsAre(Shift(1, 0), Shift(1, 1)));
  EXPECT_EQ(z_prev_, Shift(1, 1));
  EXPECT_EQ(positions_[2], 23);
  EXPECT_EQ(positions_[3], 24);
}

TEST_F(DraftResolveTest, NothingAcceptedAsksNothingOfTheSecondQuery) {
  record_.emitted = 1;
  Resolve();
  EXPECT_EQ(fed_, 1);
  EXPECT_THAT(tokens_, ElementsAre(7, 40, 0, 0, 0, 0));
  EXPECT_THAT(query_rows_, ElementsAre(1, 1));
  EXPECT_THAT(z_, ElementsAre(Shift(1, 0), &unused_z_[0]));
  EXPECT_EQ(z_prev_, Shift(1, 1));
  EXPECT_EQ(positions_[2], 21);
  // Nothing came before a cold lane's only position.
  lane_.cold = 1;
  Resolve();
  EXPECT_EQ(z_prev_, no_z_);
}

TEST_F(DraftResolveTest, ARecordThatDoesNotFitIsNotFed) {
  const CertainRecord right = record_;
  const auto expect_refused = [this] {
    Resolve();
    EXPECT_EQ(fed_, 0);
    EXPECT_THAT(tokens_, ElementsAre(7, 0, 0, 0, 0, 0));
    EXPECT_THAT(query_rows_, ElementsAre(1, 1));
    record_.tokens[0] = 40;
  };
  record_.step = kStep + 1;
  expect_refused();
  record_ = right;
  record_.emitted = 6;
  expect_refused();
  record_.emitted = 0;
  expect_refused();
  record_ = right;
  record_.tokens[2] = kVocab;
  expect_refused();
}

TEST_F(DraftResolveTest, AnswersEchoTheLane) {
  DraftRecord answer;
  std::vector<int32_t> drafts = {30, -1, 31, -1, 32, -1};  // [depth, 2]
  int32_t fed = 3;
  RoundTimes times;
  const DraftAnswerArgs args = {.epoch = kEpoch,
                                .step = kStep,
                                .lanes = {&lane_, 1},
                                .fed = {&fed, 1},
                                .drafts = ViewOf(drafts),
                                .stride = 2,
                                .records = {&answer, 1},
                                .times = &times};
  backend_->DraftAnswer(args);
  EXPECT_EQ(answer.epoch, kEpoch);
  EXPECT_EQ(answer.step, kStep);
  EXPECT_EQ(answer.slot, 1);
  EXPECT_EQ(answer.generation, 2u);
  EXPECT_EQ(answer.count, 3);
  EXPECT_EQ(answer.tokens[0], 30);
  EXPECT_EQ(answer.tokens[2], 32);
  EXPECT_GT(times.finished, 0u);
  fed = 0;
  backend_->DraftAnswer(args);
  EXPECT_EQ(answer.count, 0);
}

}  // namespace
}  // namespace tandem
