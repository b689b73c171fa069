#include "services/router/session_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/rpc/page_token.h"
#include "common/rpc/status.h"
#include "common/rpc/timestamp.h"
#include "common/rpc/validate.h"

namespace tandem {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(1);

// Whether a verifier holds the session's state now.
bool IsResident(const SessionEntry& entry) {
  return entry.place.has_value() && entry.place->worker->IsAlive(entry.place->instance_id);
}

}  // namespace

SessionUse::~SessionUse() { table_->GiveBack(entry_); }

uint32_t SessionUse::idle_timeout_seconds() const {
  return static_cast<uint32_t>(absl::ToInt64Seconds(entry_->idle_timeout));
}

void SessionUse::MoveTo(SessionPlace place) {
  Forget();
  const absl::MutexLock lock(&table_->mutex_);
  entry_->place = std::move(place);
}

void SessionUse::Forget() {
  std::optional<SessionPlace> place;
  {
    const absl::MutexLock lock(&table_->mutex_);
    place.swap(entry_->place);
  }
  table_->ClosePlace(std::move(place));
}

void SessionUse::Commit(absl::Span<const uint32_t> ids) {
  const absl::MutexLock lock(&table_->mutex_);
  entry_->history.insert(entry_->history.end(), ids.begin(), ids.end());
}

void SessionUse::OnClose(std::function<void()> cancel) {
  bool closed = false;
  {
    const absl::MutexLock lock(&table_->mutex_);
    closed = entry_->closed;
    if (!closed) entry_->cancel = cancel;
  }
  if (closed) cancel();
}

absl::StatusOr<SessionTable::Entry> SessionTable::Find(const std::string& id) {
  const auto found = entries_.find(id);
  if (found != entries_.end()) return found->second;
  return ReasonError(absl::StatusCode::kNotFound, "SESSION_UNKNOWN",
                     absl::StrCat("there is no session '", id,
                                  "'; it was closed, or idle for too long, or never opened"));
}

v1::Session SessionTable::ToProto(const SessionEntry& entry, const std::string& model) const {
  v1::Session session;
  session.set_session_id(entry.id);
  session.set_model(model);
  session.set_position(entry.history.size());
  session.set_busy(entry.busy);
  *session.mutable_opened_at() = ToTimestamp(entry.opened_at);
  *session.mutable_last_used_at() = ToTimestamp(entry.last_used);
  session.set_idle_timeout_seconds(static_cast<uint32_t>(absl::ToInt64Seconds(entry.idle_timeout)));
  session.set_resident(IsResident(entry));
  return session;
}

absl::Status SessionTable::CheckRoom(std::optional<uint64_t> room) const {
  const auto full = [](absl::string_view message) {
    return RetryLaterError(absl::StatusCode::kResourceExhausted, "SESSIONS_FULL", message,
                           kRetryDelay);
  };
  if (entries_.size() >= options_.max_sessions) {
    return full(absl::StrCat("all ", options_.max_sessions, " sessions are open"));
  }
  if (!room.has_value() || *room > entries_.size()) return absl::OkStatus();
  uint64_t unplaced = 0;
  for (const auto& [id, entry] : entries_) unplaced += IsResident(*entry) ? 0 : 1;
  if (unplaced < *room) return absl::OkStatus();
  return full("no verifier has room for another session; close one or try again later");
}

absl::StatusOr<v1::Session> SessionTable::Open(const v1::OpenSessionRequest& request,
                                               const std::string& model,
                                               std::optional<uint64_t> room) {
  const absl::MutexLock lock(&mutex_);
  if (request.has_session_id() && entries_.count(request.session_id()) > 0) {
    return ReasonError(absl::StatusCode::kAlreadyExists, "SESSION_EXISTS",
                       absl::StrCat("a session '", request.session_id(), "' is open already"));
  }
  RETURN_IF_ERROR(CheckRoom(room));
  auto entry = std::make_shared<SessionEntry>();
  entry->id = request.has_session_id() ? request.session_id() : RandomId();
  entry->idle_timeout =
      absl::Seconds(request.has_idle_timeout_seconds() ? request.idle_timeout_seconds()
                                                       : kDefaultIdleTimeoutSeconds);
  entry->opened_at = entry->last_used = absl::Now();
  entries_.emplace(entry->id, entry);
  if (options_.count_changed) options_.count_changed(entries_.size());
  return ToProto(*entry, model);
}

absl::StatusOr<v1::Session> SessionTable::Describe(const std::string& id,
                                                   const std::string& model) {
  const absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Entry entry, Find(id));
  return ToProto(*entry, model);
}

v1::ListSessionsResponse SessionTable::List(const std::string& after, int limit,
                                            const std::string& model) {
  const absl::MutexLock lock(&mutex_);
  v1::ListSessionsResponse response;
  for (auto next = entries_.upper_bound(after); next != entries_.end(); ++next) {
    if (response.sessions_size() == limit) {
      response.set_next_page_token(PageTokenAfter(response.sessions(limit - 1).session_id()));
      break;
    }
    *response.add_sessions() = ToProto(*next->second, model);
  }
  return response;
}

absl::Status SessionTable::Close(const std::string& id) {
  std::function<void()> cancel;
  std::optional<SessionPlace> place;
  {
    const absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(const Entry entry, Find(id));
    entries_.erase(id);
    entry->closed = true;
    cancel = std::exchange(entry->cancel, nullptr);
    if (!entry->busy) place.swap(entry->place);
    if (options_.count_changed) options_.count_changed(entries_.size());
  }
  if (cancel) cancel();
  ClosePlace(std::move(place));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SessionUse>> SessionTable::Use(
    const std::string& id, std::optional<uint64_t> expected_position) {
  const absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Entry entry, Find(id));
  if (entry->busy) {
    return ReasonError(absl::StatusCode::kFailedPrecondition, "SESSION_BUSY",
                       absl::StrCat("a request is running on session '", id, "'"));
  }
  if (expected_position.has_value() && *expected_position != entry->history.size()) {
    return ReasonError(absl::StatusCode::kFailedPrecondition, "POSITION_DIFFERS",
                       absl::StrCat("session '", id, "' holds ", entry->history.size(),
                                    " tokens, the request expects ", *expected_position));
  }
  entry->busy = true;
  entry->last_used = absl::Now();
  return std::make_unique<SessionUse>(this, entry);
}

void SessionTable::Expire(absl::Time now) {
  std::vector<std::optional<SessionPlace>> places;
  {
    const absl::MutexLock lock(&mutex_);
    for (auto next = entries_.begin(); next != entries_.end();) {
      SessionEntry& entry = *next->second;
      if (entry.busy || now - entry.last_used <= entry.idle_timeout) {
        ++next;
        continue;
      }
      entry.closed = true;
      places.push_back(std::exchange(entry.place, std::nullopt));
      next = entries_.erase(next);
    }
    if (options_.count_changed) options_.count_changed(entries_.size());
  }
  for (auto& place : places) ClosePlace(std::move(place));
}

void SessionTable::GiveBack(const Entry& entry) {
  std::optional<SessionPlace> place;
  {
    const absl::MutexLock lock(&mutex_);
    entry->busy = false;
    entry->cancel = nullptr;
    entry->last_used = absl::Now();
    if (entry->closed) place.swap(entry->place);
  }
  ClosePlace(std::move(place));
}

void SessionTable::ClosePlace(std::optional<SessionPlace> place) const {
  if (place.has_value() && options_.close_place) options_.close_place(*place);
}

}  // namespace tandem
