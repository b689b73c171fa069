#include "services/verifier/draft_attachment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/random.h"

namespace tandem {
namespace {

constexpr absl::Duration kReturnTick = absl::Milliseconds(5);
constexpr int kProbeRounds = 100;
constexpr auto kProbeTime = std::chrono::seconds(1);

double Seconds(ipc::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

DraftAttachment::DraftAttachment(Options options, const DraftBlocks* blocks,
                                 ipc::DescriptorServer* descriptors, VerifierMetrics* metrics)
    : options_(std::move(options)), blocks_(blocks), descriptors_(descriptors), metrics_(metrics) {
  status_.mode = "host";
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
                    .feature_handle = blocks_->feature_handle(block)};
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

absl::Status DraftAttachment::Probe(uint64_t epoch) {
  ipc::VerifierChannel channel;
  {
    absl::MutexLock lock(&mu_);
    if (!Current(epoch, Phase::kProven)) return absl::CancelledError("attachment is over");
    channel = ipc::VerifierChannel(blocks_->View(block_, epoch));
  }
  std::vector<double> seconds;
  const ipc::Clock::time_point deadline = ipc::Clock::now() + kProbeTime;
  for (int i = 1; i <= kProbeRounds; ++i) {
    const ipc::Clock::time_point start = ipc::Clock::now();
    if (channel.Ping(i, deadline, [] { return false; }) != ipc::WaitResult::kReached) {
      metrics_->Attaches("TOO_SLOW").Increment();
      return absl::DeadlineExceededError(
          absl::StrCat("the drafter answered ", i - 1, " of ", kProbeRounds, " probes in 1 s"));
    }
    seconds.push_back(Seconds(ipc::Clock::now() - start));
    metrics_->handoff_seconds.Observe(seconds.back());
  }
  std::sort(seconds.begin(), seconds.end());
  absl::MutexLock lock(&mu_);
  status_.round_trip_seconds = seconds[kProbeRounds / 2];
  status_.round_trip_p99_seconds = seconds[kProbeRounds * 99 / 100];
  return absl::OkStatus();
}

void DraftAttachment::Activate(uint64_t epoch) {
  absl::MutexLock lock(&mu_);
  if (!Current(epoch, Phase::kProven)) return;
  phase_ = Phase::kLive;
  status_.attached = true;
  metrics_->Attaches("ok").Increment();
  LOG(INFO) << "drafter attached: process " << holders_[block_].pid << ", epoch " << epoch
            << ", host mode, round trip p50 " << status_.round_trip_seconds * 1e6 << " us, p99 "
            << status_.round_trip_p99_seconds * 1e6 << " us";
  live_epoch_.store(epoch, std::memory_order_release);
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

std::optional<ipc::BlockView> DraftAttachment::Acquire() {
  absl::MutexLock lock(&mu_);
  CHECK_EQ(held_block_, -1);
  if (phase_ != Phase::kLive) return std::nullopt;
  held_block_ = block_;
  return blocks_->View(block_, epoch_);
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
