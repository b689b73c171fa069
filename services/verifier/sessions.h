#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/verifier/session.h"

namespace tandem {

// The sessions that outlive their requests. Engine thread only; must not outlive the
// RecurrentState.
class SessionTable final {
 public:
  SessionTable(RecurrentState* state, int max_sessions)
      : state_(state), max_sessions_(max_sessions) {}

  // A new, empty session; an empty id is replaced by a random one. ALREADY_EXISTS;
  // RESOURCE_EXHAUSTED at the limit.
  absl::StatusOr<Session*> Open(std::string id, absl::Time now, absl::Duration idle_timeout);
  // Null when unknown.
  Session* Find(const std::string& id) const;
  // The session, not busy, on which this request was the last to finish; null when there is none.
  Session* FindByRequest(const std::string& request_id) const;
  void Close(const std::string& id);
  // Up to `limit` sessions with id > after, by id.
  std::vector<SessionInfo> List(const std::string& after, int limit) const;

  // Ids of the sessions that are not busy and idle for longer than they may.
  std::vector<std::string> Expired(absl::Time now) const;
  // Moves the resident session that is not busy and was used longest ago to host memory; false when
  // there is none.
  bool SpillOne();
  // Resident sessions that are not busy: slots that SpillOne can free.
  int idle_slots() const;
  int size() const { return static_cast<int>(sessions_.size()); }

 private:
  RecurrentState* const state_;
  const int max_sessions_;
  std::map<std::string, std::unique_ptr<Session>> sessions_;
};

}  // namespace tandem
