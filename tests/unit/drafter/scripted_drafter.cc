// A drafter process for tests: the real attach loop around a FakeDrafter. Usage: scripted_drafter
// SOCKET [DELAY_MS], where every round takes DELAY_MS longer.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "common/base/log.h"
#include "common/rpc/stop_signals.h"
#include "services/drafter/attach_loop.h"
#include "tests/unit/drafter/fake_drafter.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  tandem::SetLogName("scripted_drafter");
  const int delay_ms = argc > 2 ? std::atoi(argv[2]) : 0;
  tandem::StopSignals signals;
  tandem::AttachLoop::Options options;
  options.socket = argv[1];
  options.sidecar = {.base_model = "some-model",
                     .layers = 6,
                     .width = 16,
                     .taps = {1, 3},
                     .depth = 3,
                     .window = 512,
                     .max_drafts = tandem::kMaxDrafts,
                     .hash = "1234"};
  options.make_backend = [] { return tandem::MakeCpuBackend(1); };
  options.make_drafter =
      [delay_ms](
          const tandem::DrafterInputs& inputs) -> absl::StatusOr<std::unique_ptr<tandem::Drafter>> {
    auto drafter = std::make_unique<tandem::FakeDrafter>(inputs.sizes.slots, inputs.sizes.width,
                                                         inputs.sizes.vocab);
    if (delay_ms > 0) drafter->before_draft = [delay_ms] { usleep(delay_ms * 1000); };
    return drafter;
  };
  const auto page = *tandem::MetricsPage::Create("");
  tandem::DrafterMetrics metrics(*page);
  tandem::AttachLoop loop(std::move(options), &metrics);
  std::atomic<bool> stop{false};
  std::thread worker([&] { loop.Run([&stop] { return stop.load(); }); });
  while (signals.Wait(absl::InfiniteDuration()) != tandem::StopSignals::Event::kSignal) continue;
  stop.store(true);
  worker.join();
  return 0;
}
