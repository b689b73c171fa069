// Many threads on one engine; meant for the thread sanitizer.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

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

TEST(EngineThreads, SubmitCancelAndWatch) {  // C40
  EngineOptions options = EngineHarness::Options(6, 2);
  auto port = MakeMtpPort(6, options.max_rows());
  EngineHarness harness(options, std::move(port));
  Engine& engine = harness.engine();
  engine.Start();
  std::vector<std::thread> threads;
  std::vector<std::vector<std::shared_ptr<RecordingSink>>> sinks(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&engine, &mine = sinks[t], t] {
      std::mt19937 random(t);
      for (int i = 0; i < 40; ++i) {
        GenerationInput input = RandomInput(random, i);
        input.request_id = absl::StrCat("t", i % 10);  // ids meet across threads
        mine.push_back(std::make_shared<RecordingSink>());
        const uint64_t handle = engine.Submit(std::move(input), mine.back());
        if (random() % 3 == 0) engine.Drop(handle);
        if (random() % 3 == 0)
          engine.Cancel(absl::StrCat("t", random() % 10), {}, [](absl::Status) {});
        EXPECT_LE(engine.load().slots_used, 6);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::promise<void> drained;
  engine.Drain(absl::Hours(1), [&drained] { drained.set_value(); });
  ASSERT_EQ(drained.get_future().wait_for(std::chrono::seconds(100)), std::future_status::ready);
  for (const auto& mine : sinks) {
    for (const auto& sink : mine) EXPECT_TRUE(sink->over());
  }
}

}  // namespace
}  // namespace tandem
