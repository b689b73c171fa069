// Everything at once: slots and gauges return to zero, survivors say what they say alone.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

// A sanitizer build runs a smaller storm.
constexpr size_t kRequests = TANDEM_SANITIZED ? 250 : 1000;

struct Flight {
  GenerationInput input;
  uint64_t handle = 0;
  std::shared_ptr<RecordingSink> sink;
};

GenerationInput RandomInput(std::mt19937& random, int index) {
  GenerationInput input =
      GoldenInput(static_cast<int>(random() % 8), 1 + static_cast<int>(random() % 6));
  input.prompt.resize(1 + random() % 20);
  input.sampling = SamplingKind(static_cast<int>(random() % 3), random() % 4);
  input.max_drafts = static_cast<int>(random() % 5);
  input.request_id = absl::StrCat("r", index);
  input.priority = static_cast<int>(random() % 3);
  return input;
}

void ExpectEmpty(EngineHarness& harness) {
  const EngineLoad load = harness.engine().load();
  EXPECT_EQ(load.slots_used, 0);
  EXPECT_EQ(load.active, 0);
  EXPECT_EQ(load.queued, 0);
  EXPECT_EQ(harness.metrics().state_slots_used.Value(), 0);
  EXPECT_EQ(harness.metrics().queue_depth.Value(), 0);
  EXPECT_EQ(harness.metrics().sessions.Value(), 0);
  harness.CheckCounters();
}

TEST(EngineStorm, ManyRequestsWithCancelsLeaveNothing) {  // C41, C42
  constexpr int kSlots = 12;
  EngineOptions options = EngineHarness::Options(kSlots, 2);
  options.prefill_chunk = 8;
  auto port = MakeMtpPort(kSlots, options.max_rows());
  EngineHarness harness(options, std::move(port));
  std::mt19937 random(20);
  std::vector<Flight> flights;
  for (int s = 0; s < 4; ++s) ASSERT_TRUE(harness.Open(absl::StrCat("s", s)).ok());
  while (flights.size() < kRequests) {
    for (int burst = static_cast<int>(random() % 8); burst > 0; --burst) {
      Flight flight{.input = RandomInput(random, static_cast<int>(flights.size()))};
      if (random() % 6 == 0) flight.input.session_id = absl::StrCat("s", random() % 4);
      flight.sink = harness.Submit(flight.input);
      flight.handle = harness.last_handle();
      flights.push_back(std::move(flight));
    }
    harness.Turn();
    if (!flights.empty() && random() % 2 == 0) {
      const Flight& victim =
          flights[flights.size() - 1 - random() % std::min<size_t>(flights.size(), 20)];
      if (random() % 2 == 0) {
        harness.engine().Drop(victim.handle);
      } else {
        harness.engine().Cancel(victim.input.request_id, {}, [](absl::Status) {});
      }
    }
    const EngineLoad load = harness.engine().load();
    EXPECT_LE(load.slots_used, kSlots);
    EXPECT_GE(load.slots_used, load.active);
  }
  harness.RunAll();
  int finished = 0;
  int checked = 0;
  for (const Flight& flight : flights) {
    ASSERT_TRUE(flight.sink->over());
    if (!flight.sink->finished()) continue;
    ++finished;
    if (!flight.input.session_id.empty() || finished % 9 != 0) continue;
    EXPECT_EQ(flight.sink->tokens(), Reference(flight.input).tokens) << flight.input.request_id;
    ++checked;
  }
  EXPECT_GT(checked, static_cast<int>(kRequests / 25));
  EXPECT_LT(finished, static_cast<int>(kRequests));
  for (int s = 0; s < 4; ++s) EXPECT_TRUE(harness.Close(absl::StrCat("s", s)).ok());
  ExpectEmpty(harness);
}

TEST(EngineStorm, DestructionFailsWhatIsLeft) {
  std::shared_ptr<RecordingSink> running;
  std::shared_ptr<RecordingSink> untaken;
  {
    EngineHarness harness(EngineHarness::Options(1, 0));
    running = harness.Submit(GoldenInput(0, 500));
    harness.Turns(3);
    untaken = harness.Submit(GoldenInput(0, 5));
  }
  EXPECT_EQ(running->failed()->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(untaken->failed()->status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tandem
