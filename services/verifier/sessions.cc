#include "services/verifier/sessions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"

namespace tandem {

absl::StatusOr<Session*> SessionTable::Open(SessionOptions options, absl::Time now) {
  if (options.id.empty()) options.id = absl::StrCat("s-", RandomId());
  const std::string id = options.id;
  if (sessions_.count(id) > 0) {
    return absl::AlreadyExistsError(absl::StrCat("session_id: session \"", id, "\" is open"));
  }
  if (size() >= max_sessions_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", max_sessions_, " sessions are open; close one or try again later"));
  }
  // A router that has no stream yet has as long as one that lost its own.
  if (!options.router_id.empty()) routers_.try_emplace(options.router_id, Router{.left_at = now});
  return (sessions_[id] = std::make_unique<Session>(std::move(options), now)).get();
}

Session* SessionTable::Find(const std::string& id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.get();
}

Session* SessionTable::FindByRequest(const std::string& request_id) const {
  for (const auto& [id, session] : sessions_) {
    if (!session->busy && session->last_request_id == request_id) return session.get();
  }
  return nullptr;
}

void SessionTable::Close(const std::string& id) { sessions_.erase(id); }

std::vector<SessionInfo> SessionTable::List(const std::string& after, int limit) const {
  std::vector<SessionInfo> listed;
  for (auto it = sessions_.upper_bound(after); it != sessions_.end(); ++it) {
    if (static_cast<int>(listed.size()) == limit) break;
    listed.push_back(it->second->Info());
  }
  return listed;
}

void SessionTable::RouterJoined(const std::string& router_id) { ++routers_[router_id].streams; }

void SessionTable::RouterLeft(const std::string& router_id, absl::Time now) {
  Router& router = routers_[router_id];
  --router.streams;
  router.left_at = now;
}

std::set<std::string> SessionTable::GoneRouters(absl::Time now) const {
  std::set<std::string> gone;
  for (const auto& [id, router] : routers_) {
    if (router.streams == 0 && now - router.left_at >= router_grace_) gone.insert(id);
  }
  return gone;
}

std::vector<std::string> SessionTable::Expired(absl::Time now) {
  const std::set<std::string> gone = GoneRouters(now);
  std::set<std::string> forgotten = gone;
  std::vector<std::string> expired;
  for (const auto& [id, session] : sessions_) {
    const bool orphan = gone.count(session->router_id()) > 0;
    if (session->busy) {
      forgotten.erase(session->router_id());
    } else if (orphan || session->Expired(now)) {
      expired.push_back(id);
    }
  }
  for (const std::string& id : forgotten) routers_.erase(id);
  return expired;
}

bool SessionTable::SpillOne() {
  Session* oldest = nullptr;
  for (const auto& [id, session] : sessions_) {
    if (session->busy || !session->resident()) continue;
    if (oldest == nullptr || session->last_used_at < oldest->last_used_at) oldest = session.get();
  }
  if (oldest == nullptr) return false;
  oldest->Spill(*state_);
  return true;
}

int SessionTable::idle_slots() const {
  int count = 0;
  for (const auto& [id, session] : sessions_) count += !session->busy && session->resident();
  return count;
}

}  // namespace tandem
