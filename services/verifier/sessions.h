#pragma once

#include <map>
#include <memory>
#include <set>
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
  // A router that has had no stream for `router_grace` is gone, and its sessions with it.
  SessionTable(RecurrentState* state, int max_sessions, absl::Duration router_grace)
      : state_(state), max_sessions_(max_sessions), router_grace_(router_grace) {}

  // A new, empty session; an empty id is replaced by a random one. ALREADY_EXISTS;
  // RESOURCE_EXHAUSTED at the limit.
  absl::StatusOr<Session*> Open(SessionOptions options, absl::Time now);
  // Null when unknown.
  Session* Find(const std::string& id) const;
  // The session, not busy, on which this request was the last to finish; null when there is none.
  Session* FindByRequest(const std::string& request_id) const;
  void Close(const std::string& id);
  // Up to `limit` sessions with id > after, by id.
  std::vector<SessionInfo> List(const std::string& after, int limit) const;

  // A stream of the router begins, or ends.
  void RouterJoined(const std::string& router_id);
  void RouterLeft(const std::string& router_id, absl::Time now);

  // Ids of the sessions that are not busy and either idle for longer than they may or a gone
  // router's. Forgets routers that are gone with all their sessions.
  std::vector<std::string> Expired(absl::Time now);
  // Moves the resident session that is not busy and was used longest ago to host memory; false when
  // there is none.
  bool SpillOne();
  // Resident sessions that are not busy: slots that SpillOne can free.
  int idle_slots() const;
  int size() const { return static_cast<int>(sessions_.size()); }

 private:
  struct Router {
    int streams = 0;
    absl::Time left_at;  // while there are no streams
  };
  std::set<std::string> GoneRouters(absl::Time now) const;

  RecurrentState* const state_;
  const int max_sessions_;
  const absl::Duration router_grace_;
  std::map<std::string, Router> routers_;
  std::map<std::string, std::unique_ptr<Session>> sessions_;
};

}  // namespace tandem
