#include "services/verifier/sessions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"

namespace tandem {

absl::StatusOr<Session*> SessionTable::Open(std::string id, absl::Time now,
                                            absl::Duration idle_timeout) {
  if (id.empty()) id = absl::StrCat("s-", RandomId());
  if (sessions_.count(id) > 0) {
    return absl::AlreadyExistsError(absl::StrCat("session_id: session \"", id, "\" is open"));
  }
  if (size() >= max_sessions_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", max_sessions_, " sessions are open; close one or try again later"));
  }
  auto session = std::make_unique<Session>(id, now, idle_timeout);
  Session* const opened = session.get();
  sessions_.emplace(std::move(id), std::move(session));
  return opened;
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

std::vector<std::string> SessionTable::Expired(absl::Time now) const {
  std::vector<std::string> expired;
  for (const auto& [id, session] : sessions_) {
    if (session->Expired(now)) expired.push_back(id);
  }
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
