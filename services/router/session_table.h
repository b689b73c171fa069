#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/router/worker.h"
#include "tandem/v1/session.pb.h"

namespace tandem {

// Where a session's state is resident.
struct SessionPlace {
  std::shared_ptr<Worker> worker = {};
  std::string instance_id = {};
  std::string session_id = {};  // the verifier's name for it
};

// One session. Its tokens are kept here, so that its state can be computed again anywhere.
struct SessionEntry {
  std::string id = {};
  absl::Duration idle_timeout = {};
  absl::Time opened_at = {};
  absl::Time last_used = {};
  bool busy = false;
  bool closed = false;
  std::function<void()> cancel = {};  // ends the live request
  // Written under the table's lock, and only by the one that uses the session.
  std::vector<uint32_t> history = {};
  std::optional<SessionPlace> place = {};
};

class SessionTable;

// The only writer of a session while a request runs on it. Gives it back when destroyed.
class SessionUse final {
 public:
  SessionUse(SessionTable* table, std::shared_ptr<SessionEntry> entry)
      : table_(table), entry_(std::move(entry)) {}
  ~SessionUse();
  SessionUse(const SessionUse&) = delete;
  SessionUse& operator=(const SessionUse&) = delete;

  absl::Span<const uint32_t> history() const { return entry_->history; }
  uint32_t idle_timeout_seconds() const;
  // Absent until the state is resident; the caller checks that the instance is alive.
  const std::optional<SessionPlace>& place() const { return entry_->place; }
  void MoveTo(SessionPlace place);
  // The state is lost or of no use: closed where it was.
  void Forget();
  // The session holds these tokens behind its history now.
  void Commit(absl::Span<const uint32_t> ids);
  // Called when the session is closed meanwhile.
  void OnClose(std::function<void()> cancel);

 private:
  SessionTable* const table_;
  const std::shared_ptr<SessionEntry> entry_;
};

// The sessions that clients opened at this router. Thread-safe; outlives its uses.
class SessionTable final {
 public:
  struct Options {
    size_t max_sessions = 10'000;
    // Closes a state on a verifier; must not block.
    std::function<void(const SessionPlace&)> close_place = {};
    std::function<void(size_t sessions)> count_changed = {};
  };
  explicit SessionTable(Options options) : options_(std::move(options)) {}

  // ALREADY_EXISTS, or RESOURCE_EXHAUSTED at max_sessions and where the sessions that hold no place
  // yet take all of `room`: what the verifiers would still open; absent if that is not known.
  absl::StatusOr<v1::Session> Open(const v1::OpenSessionRequest& request, const std::string& model,
                                   std::optional<uint64_t> room);
  absl::StatusOr<v1::Session> Describe(const std::string& id, const std::string& model);
  // Up to `limit` sessions with id > after.
  v1::ListSessionsResponse List(const std::string& after, int limit, const std::string& model);
  absl::Status Close(const std::string& id);

  // NOT_FOUND; FAILED_PRECONDITION with SESSION_BUSY or POSITION_DIFFERS.
  absl::StatusOr<std::unique_ptr<SessionUse>> Use(const std::string& id,
                                                  std::optional<uint64_t> expected_position);
  // Closes what was idle for longer than its time-out.
  void Expire(absl::Time now);

 private:
  friend class SessionUse;
  using Entry = std::shared_ptr<SessionEntry>;
  absl::StatusOr<Entry> Find(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(std::optional<uint64_t> room) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::Session ToProto(const SessionEntry& entry, const std::string& model) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(const Entry& entry);
  void ClosePlace(std::optional<SessionPlace> place) const;

  const Options options_;
  absl::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tandem
