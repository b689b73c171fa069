// The ops between verifier and drafter on a GPU leave what they leave on the CPU, whatever lies in
// the shared records.

#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "kernels/draft_exchange/draft_exchange.h"
#include "tests/gpu/on_device.h"

namespace tandem {
namespace {

constexpr int kLanes = 70, kSlots = 80, kVocab = 100, kWidth = 4;
constexpr int kRows = kLanes * (kMaxDrafts + 1);
constexpr uint64_t kEpoch = 77, kStep = 5;

using Random = std::mt19937;
int Below(Random& random, int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

// One of six records is of another lane or round.
template <class Record>
void Echo(Random& random, int slot, Record& record) {
  const int wrong = Below(random, 24);
  record.epoch = kEpoch + (wrong == 0);
  record.step = kStep - (wrong == 1);
  record.slot = slot + (wrong == 2);
  record.generation = static_cast<uint32_t>(slot * 3 + (wrong == 3));
}

// Some tokens are none.
int32_t Token(Random& random) { return Below(random, kVocab + 8) - 3; }

struct Resolved {
  std::vector<int32_t> tokens, query_rows, fed;
  std::vector<int64_t> z, z_prev, positions;
  std::vector<DraftRecord> answers;
  bool operator==(const Resolved&) const;
};

std::vector<int64_t> Offsets(const std::vector<float*>& pointers, const float* base) {
  std::vector<int64_t> offsets;
  for (const float* pointer : pointers)
    offsets.push_back(reinterpret_cast<intptr_t>(pointer) == -1 ? -1 : pointer - base);
  return offsets;
}

// Lanes sorted by `wanted`, as the ops need them.
std::vector<DraftResolveLane> ResolveLanes(Random& random) {
  std::vector<DraftResolveLane> lanes;
  int row = 0, second = kLanes;
  for (int i = 0; i < kLanes; ++i) {
    DraftResolveLane lane = {.record = kLanes - 1 - i, .slot = i, .row = row};
    lane.generation = static_cast<uint32_t>(lane.slot * 3);
    lane.chooses = Below(random, 5) > 0;
    lane.count = lane.chooses ? 1 + Below(random, 2) : 1 + Below(random, 9);
    lane.drafts = lane.chooses && lane.count == 1 ? Below(random, kMaxDrafts + 1) : 0;
    const int rows = lane.count + lane.drafts;
    lane.second = rows > 1 ? second++ : -1;
    lane.wanted = kMaxDrafts - i * (kMaxDrafts + 1) / kLanes;
    lane.cold = Below(random, 2);
    lane.position = Below(random, 3) == 0 ? 0 : Below(random, 1000);
    lanes.push_back(lane);
    row += rows;
  }
  return lanes;
}

Resolved Resolve(Backend& backend, uint32_t seed) {
  Random random(seed);
  OnDevice device(backend);
  const std::vector<DraftResolveLane> lanes = ResolveLanes(random);
  std::vector<CertainRecord> records(kLanes);
  std::vector<int32_t> drafts(kMaxDrafts * kLanes);
  for (const DraftResolveLane& lane : lanes) {
    CertainRecord& record = records[static_cast<size_t>(lane.record)];
    Echo(random, lane.slot, record);
    record.emitted = lane.chooses ? Below(random, lane.drafts + 2 + (random() % 9 == 0)) : 0;
    for (int32_t& token : record.tokens)
      token = random() % 40 == 0 ? Token(random) : Below(random, kVocab);
  }
  for (int32_t& draft : drafts) draft = Below(random, kVocab);
  const View<float> shifts = device.Out<float>((kSlots * 2 + 1 + kLanes) * kWidth);
  const View<RoundTimes> times = device.Out<RoundTimes>(1);
  DraftResolveArgs args = {.epoch = kEpoch, .step = kStep, .vocab = kVocab, .width = kWidth};
  args.records = device.In(records);
  args.times = times.data;
  args.lanes = device.In(lanes);
  args.shifts = shifts.data;
  args.no_z = shifts.data + kSlots * 2 * kWidth;
  args.unused_z = args.no_z + kWidth;
  args.tokens = device.Out<int32_t>(kRows);
  args.query_rows = device.Out<int32_t>(2 * kLanes);
  args.z = device.Out<float*>(2 * kLanes);
  args.z_prev = device.Out<float*>(kLanes);
  const View<int64_t> positions = device.Out<int64_t>((kMaxDrafts + 1) * kLanes);
  for (int k = 2; k <= kMaxDrafts; ++k) args.draft_positions[k] = positions.Sub(k * kLanes, kLanes);
  args.fed = device.Out<int32_t>(kLanes);
  backend.DraftResolve(args);
  const View<DraftRecord> answers = device.Out<DraftRecord>(kLanes);
  backend.DraftAnswer({.epoch = kEpoch,
                       .step = kStep,
                       .lanes = args.lanes,
                       .fed = args.fed,
                       .drafts = device.In(drafts),
                       .stride = kLanes,
                       .records = answers,
                       .times = times.data});
  const RoundTimes read = device.Read(times)[0];
  EXPECT_LE(read.started, read.finished);
  return {.tokens = device.Read(args.tokens),
          .query_rows = device.Read(args.query_rows),
          .fed = device.Read(args.fed),
          .z = Offsets(device.Read(args.z), shifts.data),
          .z_prev = Offsets(device.Read(args.z_prev), shifts.data),
          .positions = device.Read(positions),
          .answers = device.Read(answers)};
}

bool Resolved::operator==(const Resolved& other) const {
  const size_t bytes = answers.size() * sizeof(DraftRecord);
  return tokens == other.tokens && query_rows == other.query_rows && fed == other.fed &&
         z == other.z && z_prev == other.z_prev && positions == other.positions &&
         std::memcmp(answers.data(), other.answers.data(), bytes) == 0;
}

struct Taken {
  std::vector<int32_t> tokens, row_tokens, taken;
  bool operator==(const Taken&) const = default;
};

Taken Take(Backend& backend, uint32_t seed, bool came) {
  Random random(seed);
  OnDevice device(backend);
  std::vector<DraftRecord> records(kLanes);
  std::vector<DraftTakeLane> lanes;
  for (int i = 0; i < kLanes; ++i) {
    DraftRecord& record = records[static_cast<size_t>(i)];
    Echo(random, i, record);
    record.count = Below(random, kMaxDrafts + 3) - 1;
    for (int32_t& token : record.tokens) token = Token(random);
    lanes.push_back({.record = i,
                     .slot = i,
                     .generation = static_cast<uint32_t>(i * 3),
                     .count = 1 + Below(random, kMaxDrafts),
                     .first_row = i * (kMaxDrafts + 1) + 1,
                     .first_logit = i * (kMaxDrafts + 1) + 1});
  }
  DraftTakeArgs args = {.epoch = kEpoch, .step = kStep, .vocab = kVocab};
  if (came) args.records = device.In(records);
  args.times =
      device.In(std::vector<RoundTimes>{{.published = 1, .started = 2, .finished = 3}}).data;
  args.lanes = device.In(lanes);
  args.tokens = device.Out<int32_t>(kRows);
  args.row_tokens = device.Out<int32_t>(kRows);
  args.taken = device.Out<int32_t>(kLanes);
  args.clock = device.Out<uint64_t>(4);
  backend.DraftTake(args);
  const std::vector<uint64_t> clock = device.Read(args.clock);
  EXPECT_EQ(std::vector<uint64_t>(clock.begin(), clock.begin() + 3),
            (std::vector<uint64_t>{1, 2, 3}));
  return {device.Read(args.tokens), device.Read(args.row_tokens), device.Read(args.taken)};
}

std::vector<CertainRecord> Publish(Backend& backend, uint32_t seed) {
  Random random(seed);
  OnDevice device(backend);
  std::vector<DraftPublishLane> lanes;
  std::vector<int32_t> emitted(kLanes), tokens(kRows);
  for (int i = 0; i < kLanes; ++i)
    lanes.push_back(
        {.pass_lane = kLanes - 1 - i, .slot = i, .generation = static_cast<uint32_t>(i)});
  for (int32_t& count : emitted) count = Below(random, kMaxDrafts + 2);
  for (int32_t& token : tokens) token = Below(random, kVocab);
  const View<CertainRecord> records = device.Out<CertainRecord>(kLanes);
  backend.DraftPublish({.epoch = kEpoch,
                        .step = kStep,
                        .lanes = device.In(lanes),
                        .emitted = device.In(emitted),
                        .tokens = device.In(tokens),
                        .records = records,
                        .times = device.Out<RoundTimes>(1).data});
  return device.Read(records);
}

TEST(DraftExchangeCudaTest, AsOnTheCpu) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  const std::unique_ptr<Backend> cpu = MakeCpuBackend(1);
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    EXPECT_TRUE(Resolve(*cuda, seed) == Resolve(*cpu, seed)) << "seed " << seed;
    for (const bool came : {true, false})
      EXPECT_EQ(Take(*cuda, seed, came), Take(*cpu, seed, came)) << "seed " << seed;
    const std::vector<CertainRecord> published = Publish(*cuda, seed),
                                     expected = Publish(*cpu, seed);
    EXPECT_EQ(std::memcmp(published.data(), expected.data(), kLanes * sizeof(CertainRecord)), 0)
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace tandem
