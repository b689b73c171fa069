#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "services/drafter/draft_loop.h"
#include "tests/unit/drafter/fake_drafter.h"
#include "tests/unit/drafter/handoff_harness.h"

namespace tandem {

// A real drafter loop on a thread of its own: in device mode where it is given a backend, else in
// host mode.
class LoopThread final {
 public:
  explicit LoopThread(const ipc::DrafterChannel& channel, Backend* backend = nullptr)
      : page_(*MetricsPage::Create("")),
        metrics_(*page_),
        drafter(kTestSizes.slots, kTestSizes.width, kTestSizes.vocab),
        on_device_(backend != nullptr),
        loop_(channel, &drafter, &metrics_, backend) {}
  ~LoopThread() { Stop(); }
  void Start() {
    thread_ = std::thread([this] {
      const auto stopped = [this] { return stop_.load(); };
      if (on_device_) {
        loop_.RunOnDevice(stopped);
      } else {
        loop_.Run(stopped);
      }
    });
  }
  void Stop() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::unique_ptr<MetricsPage> page_;
  DrafterMetrics metrics_;
  std::atomic<bool> stop_{false};
  std::thread thread_;

 public:
  FakeDrafter drafter;

 private:
  const bool on_device_;
  DraftLoop loop_;
};

}  // namespace tandem
