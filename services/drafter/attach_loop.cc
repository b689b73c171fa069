#include "services/drafter/attach_loop.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "services/drafter/draft_loop.h"

namespace tandem {
namespace {

constexpr absl::Duration kShortestPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
constexpr absl::Duration kSlice = absl::Milliseconds(50);
constexpr absl::Duration kOfferTimeout = absl::Seconds(5);

void Pause(absl::Duration pause, absl::FunctionRef<bool()> stopped) {
  const absl::Time end = absl::Now() + pause;
  while (!stopped() && absl::Now() < end) absl::SleepFor(std::min(kSlice, end - absl::Now()));
}

}  // namespace

AttachLoop::AttachLoop(Options options, DrafterMetrics* metrics)
    : options_(std::move(options)), metrics_(metrics) {}

void AttachLoop::Answered() {
  if (!answered_ && options_.on_first_answer) options_.on_first_answer();
  answered_ = true;
}

void AttachLoop::Run(absl::FunctionRef<bool()> stopped) {
  absl::Duration pause = kShortestPause;
  std::string last_message;
  while (!stopped()) {
    served_ = false;
    const absl::Status status = AttachOnce(stopped);
    metrics_->attached.Set(0);
    if (stopped()) return;
    if (absl::IsFailedPrecondition(status)) Answered();
    // The same reason again, every two seconds, would only fill the log.
    const std::string message(status.message());
    if (served_ || message != last_message) {
      LOG(WARNING) << "not attached to " << options_.socket << ": " << message << "; trying again";
    }
    last_message = message;
    pause = served_ ? kShortestPause : std::min(pause * 2, kLongestPause);
    Pause(pause, stopped);
  }
}

absl::Status AttachLoop::AttachOnce(absl::FunctionRef<bool()> stopped) {
  ASSIGN_OR_RETURN(ipc::Identity identity,
                   ipc::OwnIdentity(options_.backend, options_.device_uuid));
  identity.mps = options_.mps;
  AttachClient client(options_.socket, {.identity = std::move(identity),
                                        .sidecar = options_.sidecar,
                                        .closed_epoch = closed_epoch_});
  const absl::Time deadline = absl::Now() + kOfferTimeout;
  absl::StatusOr<AttachOffer> offer = client.WaitOffer(kSlice);
  while (absl::IsDeadlineExceeded(offer.status()) && !stopped() && absl::Now() < deadline) {
    offer = client.WaitOffer(kSlice);
  }
  RETURN_IF_ERROR(offer.status());
  absl::Status result = ServeOffer(client, *offer, stopped);
  // Every mapping went with the session.
  closed_epoch_ = offer->epoch;
  client.SendClosed(offer->epoch);
  return result;
}

absl::Status AttachLoop::ServeOffer(AttachClient& client, const AttachOffer& offer,
                                    absl::FunctionRef<bool()> stopped) {
  ASSIGN_OR_RETURN(const std::unique_ptr<DraftSession> session,
                   DraftSession::Open(offer, options_.make_backend, options_.make_drafter));
  client.SendProof(offer.epoch, session->answer(), offer.lease_seconds);
  const auto over = [&client, &stopped] { return client.over() || stopped(); };
  DraftLoop loop(session->channel(), session->drafter(), metrics_, session->backend());
  loop.AnswerProbe(
      offer.device, [&client] { return client.ready(); }, over);
  if (client.ready()) {
    Answered();
    served_ = true;
    metrics_->attaches.Increment();
    metrics_->attached.Set(1);
    LOG(INFO) << "attached to " << options_.socket << ": epoch " << offer.epoch << ", model "
              << offer.model << ", " << (client.device_mode() ? "device" : "host") << " mode";
    if (client.device_mode()) {
      loop.RunOnDevice(over);
    } else {
      loop.Run(over);
    }
  }
  return client.over() ? client.status() : absl::CancelledError("stopping");
}

}  // namespace tandem
