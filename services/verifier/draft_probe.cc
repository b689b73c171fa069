#include "services/verifier/draft_probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem {
namespace {

constexpr double kProbeSeconds = 1;
constexpr double kRescueDeadline = 0.002;
constexpr double kRescueLimit = 0.001;
// The thread that releases may be late once; the device not.
constexpr int kRescues = 5;

RoundTrip Summary(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {.median = seconds[seconds.size() / 2], .p99 = seconds[seconds.size() * 99 / 100]};
}

}  // namespace

absl::StatusOr<RoundTrip> ProbeHost(const ipc::VerifierChannel& channel) {
  std::vector<double> seconds;
  const ipc::Clock::time_point deadline = ipc::After(kProbeSeconds);
  for (int i = 1; i <= ipc::kProbeRounds; ++i) {
    const ipc::Clock::time_point start = ipc::Clock::now();
    if (channel.Ping(i, deadline, [] { return false; }) != ipc::WaitResult::kReached) {
      return absl::DeadlineExceededError(absl::StrCat("the drafter answered ", i - 1, " of ",
                                                      ipc::kProbeRounds, " probes in 1 s"));
    }
    seconds.push_back(ipc::Seconds(ipc::Clock::now() - start));
  }
  return Summary(std::move(seconds));
}

std::unique_ptr<DeviceProbe> DeviceProbe::Create(Backend* backend) {
  void* const stamps = backend->Allocate(2 * ipc::kProbeRounds * sizeof(uint64_t));
  if (stamps == nullptr) return nullptr;
  return std::unique_ptr<DeviceProbe>(new DeviceProbe(backend, static_cast<uint64_t*>(stamps)));
}

void DeviceProbe::Prepare(const ipc::BlockView& view) {
  for (const auto word : {ipc::kDevicePing, ipc::kDevicePong, ipc::kDeviceRescue})
    backend_->WriteWord(view.device_word(word), 0);
  backend_->Wait();
}

absl::StatusOr<RoundTrip> DeviceProbe::Run(const ipc::BlockView& view) {
  watchdog_.Arm(ipc::After(kProbeSeconds), [] { return false; });
  for (uint32_t i = 1; i <= ipc::kProbeRounds && !watchdog_.released(); ++i) {
    backend_->Stamp(stamps_ + 2 * (i - 1));
    backend_->WriteWord(view.device_word(ipc::kDevicePing), i);
    backend_->WaitWord(view.device_word(ipc::kDevicePong), i);
    backend_->Stamp(stamps_ + 2 * (i - 1) + 1);
  }
  uint64_t stamps[2 * ipc::kProbeRounds];
  backend_->CopyOut(stamps, stamps_, sizeof(stamps));
  backend_->Wait();
  if (watchdog_.Disarm())
    return absl::DeadlineExceededError("the drafter's device did not answer the probe in 1 s");
  RETURN_IF_ERROR(Rescue(view));
  std::vector<double> seconds;
  for (int i = 0; i < ipc::kProbeRounds; ++i)
    seconds.push_back(static_cast<double>(stamps[2 * i + 1] - stamps[2 * i]) * 1e-9);
  return Summary(std::move(seconds));
}

absl::Status DeviceProbe::Rescue(const ipc::BlockView& view) {
  double fastest = kProbeSeconds;
  for (uint32_t i = 1; i <= kRescues; ++i) {
    const ipc::Clock::time_point deadline = ipc::After(kRescueDeadline);
    watchdog_.Arm(deadline, [] { return false; });
    backend_->WaitWord(view.device_word(ipc::kDeviceRescue), i);
    backend_->Wait();
    const double late = ipc::Seconds(ipc::Clock::now() - deadline);
    if (!watchdog_.Disarm()) return absl::InternalError("a word that nobody writes was written");
    fastest = std::min(fastest, late);
  }
  const bool on_cpu = absl::string_view(backend_->name()) == "cpu";
  if (on_cpu || fastest <= kRescueLimit) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("a pending wait was released after ", fastest * 1e3, " ms, limit 1 ms"));
}

}  // namespace tandem
