#include "services/verifier/draft_attachment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"

namespace tandem {
namespace {

constexpr absl::Duration kReturnTick = absl::Milliseconds(5);
// What device mode may add to a round.
constexpr double kDeviceMedian = 25e-6;
constexpr double kDeviceP99 = 100e-6;

}  // namespace

DraftAttachment::DraftAttachment(Options options, const DraftBlocks* blocks,
                                 ipc::DescriptorServer* descriptors, VerifierMetrics* metrics)
    : options_(std::move(options)), blocks_(blocks), descriptors_(descriptors), metrics_(metrics) {
  status_.mode = options_.force_device ? "device" : "host";
  status_.reason = options_.reason;
  status_.sidecar = options_.sidecar;
  // Epochs grow across restarts of the verifier, so that one is never used twice.
  epoch_ = static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
}

bool DraftAttachment::Current(uint64_t epoch, Phase phase) const {
  return epoch == epoch_ && phase == phase_;
}

void DraftAttachment::Withdraw(Holder& holder) {
  if (holder.token.empty()) return;
  holder.claim = descriptors_->Withdraw(holder.token);
  holder.token.clear();
}

bool DraftAttachment::Returned(const Holder& holder) {
  return holder.epoch == 0 || !holder.claim.has_value() || ipc::HasEnded(holder.claim->pidfd);
}

int DraftAttachment::FreeBlock(const DrafterFacts& drafter) {
  for (int i = 0; i < kDraftBlocks; ++i) {
    Holder& holder = holders_[i];
    const bool returned =
        holder.epoch <= drafter.closed_epoch && holder.pid == drafter.identity.pid;
    if (i == held_block_) continue;
    if (returned || Returned(holder)) {
      holder = Holder{};
      return i;
    }
  }
  return -1;
}

std::variant<DraftOffer, DraftRefusal> DraftAttachment::Hello(const DrafterFacts& drafter) {
  absl::MutexLock lock(&mu_);
  std::optional<DraftRefusal> refusal = CheckDrafter(options_.facts, drafter);
  int block = -1;
  if (!refusal && draining_) {
    refusal = DraftRefusal{"DRAINING", "the verifier is going down"};
  } else if (!refusal && phase_ != Phase::kNone) {
    refusal = DraftRefusal{"BUSY", "another drafter is attached; one is enough"};
  } else if (!refusal && (block = FreeBlock(drafter)) < 0) {
    refusal =
        DraftRefusal{"BUSY", "earlier drafters still hold the shared memory; end those processes"};
  }
  if (refusal) {
    metrics_->Attaches(refusal->reason).Increment();
    return *refusal;
  }
  phase_ = Phase::kOffered;
  block_ = block;
  ++epoch_;
  nonce_ = RandomBits();
  offered_device_ =
      options_.device_probe != nullptr &&
      (options_.force_device || (options_.facts.identity.mps && drafter.identity.mps));
  device_ = false;
  ipc::VerifierChannel(blocks_->View(block, epoch_)).Start(nonce_);
  std::vector<int> fds = blocks_->descriptors(block);
  fds.insert(fds.end(), options_.weight_descriptors.begin(), options_.weight_descriptors.end());
  holders_[block] = {.epoch = epoch_,
                     .pid = drafter.identity.pid,
                     .token = descriptors_->Offer(std::move(fds)),
                     .claim = std::nullopt};
  status_.depth = drafter.sidecar.depth;
  status_.max_drafts = drafter.sidecar.max_drafts;
  return DraftOffer{.epoch = epoch_,
                    .nonce = nonce_,
                    .descriptor_token = holders_[block].token,
                    .feature_handle = blocks_->feature_handle(block),
                    .device = offered_device_};
}

std::optional<DraftRefusal> DraftAttachment::Prove(uint64_t epoch, uint64_t answer) {
  absl::MutexLock lock(&mu_);
  if (!Current(epoch, Phase::kOffered)) {
    return DraftRefusal{"PROTOCOL_ERROR", absl::StrCat("no proof is due for epoch ", epoch)};
  }
  Holder& holder = holders_[block_];
  Withdraw(holder);
  const uint64_t expected = ipc::KeyedAnswer(epoch, nonce_, blocks_->feature_nonce(block_));
  const uint64_t in_block = blocks_->View(block_, epoch).header()->answer;
  std::string failure;
  if (!holder.claim.has_value()) {
    failure = "nobody took the descriptors";
  } else if (holder.claim->pid != holder.pid) {
    failure = absl::StrCat("process ", holder.claim->pid, " took the descriptors, not ", holder.pid,
                           " that said hello");
  } else if (answer != expected || in_block != expected) {
    failure = absl::StrCat("the answer is wrong in the ",
                           answer != expected ? "message" : "shared memory",
                           "; both processes must map the same memory");
  }
  if (!failure.empty()) {
    metrics_->Attaches("NONCE_FAILED").Increment();
    EndLocked("");
    return DraftRefusal{"NONCE_FAILED", failure};
  }
  phase_ = Phase::kProven;
  return std::nullopt;
}

absl::Status DraftAttachment::ProbeDevice(const ipc::BlockView& view, RoundTrip& round_trip,
                                          std::string& reason) {
  ASSIGN_OR_RETURN(round_trip, options_.device_probe->Run(view));
  if (options_.force_device) return absl::OkStatus();
  if (round_trip.median > kDeviceMedian || round_trip.p99 > kDeviceP99) {
    return absl::DeadlineExceededError(absl::StrCat(
        "a round trip by stream words takes ", round_trip.median * 1e6, " us, p99 ",
        round_trip.p99 * 1e6, " us; limits ", kDeviceMedian * 1e6, " and ", kDeviceP99 * 1e6));
  }
  reason = "MPS is active and the probe passed";
  return absl::OkStatus();
}

absl::Status DraftAttachment::Probe(uint64_t epoch) {
  ipc::BlockView view;
  bool device = false;
  {
    absl::MutexLock lock(&mu_);
    if (!Current(epoch, Phase::kProven)) return absl::CancelledError("attachment is over");
    view = blocks_->View(block_, epoch);
    device = offered_device_;
  }
  if (device) options_.device_probe->Prepare(view);
  absl::StatusOr<RoundTrip> round_trip = ProbeHost(ipc::VerifierChannel(view));
  std::string reason = options_.reason;
  if (round_trip.ok() && device) {
    const absl::Status status = ProbeDevice(view, *round_trip, reason);
    if (!status.ok()) {
      device = false;
      reason = "the probe of device mode failed";
      LOG(WARNING) << reason << ": " << status.message();
      if (options_.force_device) round_trip = status;
    }
  }
  if (!round_trip.ok()) {
    metrics_->Attaches("TOO_SLOW").Increment();
    return round_trip.status();
  }
  metrics_->handoff_seconds.Observe(round_trip->median);
  absl::MutexLock lock(&mu_);
  if (!Current(epoch, Phase::kProven)) return absl::CancelledError("attachment is over");
  device_ = device;
  status_.mode = device ? "device" : "host";
  status_.reason = reason;
  status_.round_trip_seconds = round_trip->median;
  status_.round_trip_p99_seconds = round_trip->p99;
  return absl::OkStatus();
}

bool DraftAttachment::Activate(uint64_t epoch) {
  absl::MutexLock lock(&mu_);
  if (!Current(epoch, Phase::kProven)) return false;
  phase_ = Phase::kLive;
  status_.attached = true;
  metrics_->Attaches("ok").Increment();
  metrics_->SetHandoff(status_.mode, status_.reason);
  LOG(INFO) << "drafter attached: process " << holders_[block_].pid << ", epoch " << epoch << ", "
            << status_.mode << " mode (" << status_.reason << "), round trip p50 "
            << status_.round_trip_seconds * 1e6 << " us, p99 "
            << status_.round_trip_p99_seconds * 1e6 << " us";
  live_epoch_.store(epoch, std::memory_order_release);
  return device_;
}

void DraftAttachment::EndLocked(const std::string& reason) {
  Withdraw(holders_[block_]);
  if (phase_ == Phase::kLive) {
    live_epoch_.store(0, std::memory_order_release);
    // The engine may be waiting for drafts that will not come.
    ipc::Wake(blocks_->View(block_, epoch_).word(ipc::kDrafted));
    metrics_->Detaches(reason).Increment();
    LOG(WARNING) << "drafter detached: " << reason << "; serving without drafts";
  }
  phase_ = Phase::kNone;
  status_.attached = false;
}

void DraftAttachment::End(uint64_t epoch, const std::string& reason) {
  absl::MutexLock lock(&mu_);
  if (epoch != epoch_ || phase_ == Phase::kNone) return;
  EndLocked(reason);
}

void DraftAttachment::Closed(uint64_t epoch) {
  absl::MutexLock lock(&mu_);
  if (epoch == epoch_ && phase_ != Phase::kNone) EndLocked("closed");
  for (Holder& holder : holders_) {
    if (holder.epoch == epoch) holder = Holder{};
  }
}

void DraftAttachment::Drain() {
  absl::MutexLock lock(&mu_);
  draining_ = true;
}

std::vector<uint64_t> DraftAttachment::TakeCondemned() {
  absl::MutexLock lock(&mu_);
  return std::exchange(condemned_, {});
}

std::optional<DraftAttachment::Attached> DraftAttachment::Acquire() {
  absl::MutexLock lock(&mu_);
  CHECK_EQ(held_block_, -1);
  if (phase_ != Phase::kLive) return std::nullopt;
  held_block_ = block_;
  return Attached{.view = blocks_->View(block_, epoch_), .device = device_};
}

void DraftAttachment::Release() {
  absl::MutexLock lock(&mu_);
  held_block_ = -1;
}

void DraftAttachment::Condemn(uint64_t epoch) {
  absl::MutexLock lock(&mu_);
  if (!Current(epoch, Phase::kLive)) return;
  EndLocked("late");
  condemned_.push_back(epoch);
}

bool DraftAttachment::AwaitReturned(absl::Duration most) {
  const absl::Time deadline = absl::Now() + most;
  const auto returned = [this] {
    absl::MutexLock lock(&mu_);
    return phase_ == Phase::kNone && std::all_of(holders_.begin(), holders_.end(), Returned);
  };
  // The end of a process wakes nobody.
  while (!returned()) {
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(kReturnTick);
  }
  return true;
}

HandoffStatus DraftAttachment::Status() const {
  absl::MutexLock lock(&mu_);
  return status_;
}

}  // namespace tandem
