#include "services/router/live_requests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status.h"

namespace tandem {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(1);

}  // namespace

absl::Status LiveRequests::Add(const std::string& id, const std::shared_ptr<Relay>& relay) {
  const absl::MutexLock lock(&mutex_);
  if (draining_) {
    return RetryLaterError(absl::StatusCode::kUnavailable, "DRAINING",
                           "this router is draining; ask another one", kRetryDelay);
  }
  if (!live_.emplace(id, relay).second) {
    return FieldError(absl::StatusCode::kAlreadyExists, "request_id",
                      absl::StrCat("a live request has the id '", id, "'"));
  }
  ++calls_;
  return absl::OkStatus();
}

void LiveRequests::Finish(const std::string& id) {
  const absl::MutexLock lock(&mutex_);
  live_.erase(id);
  finished_.Add(id);
}

void LiveRequests::CallOver() {
  std::function<void()> drained;
  {
    const absl::MutexLock lock(&mutex_);
    if (--calls_ == 0) drained = std::exchange(drained_, nullptr);
  }
  if (drained) drained();
}

absl::Status LiveRequests::Cancel(const std::string& id) {
  std::shared_ptr<Relay> relay;
  {
    const absl::MutexLock lock(&mutex_);
    const auto found = live_.find(id);
    if (found == live_.end() && !finished_.Contains(id)) {
      return FieldError(absl::StatusCode::kNotFound, "request_id",
                        absl::StrCat("there is no request '", id, "'"));
    }
    if (found != live_.end()) relay = found->second.lock();
  }
  if (relay != nullptr) relay->Cancel();
  return absl::OkStatus();
}

void LiveRequests::Drain(std::function<void()> drained) {
  {
    const absl::MutexLock lock(&mutex_);
    draining_ = true;
    if (calls_ > 0) {
      drained_ = std::move(drained);
      return;
    }
  }
  drained();
}

}  // namespace tandem
