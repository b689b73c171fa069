#include "services/verifier/scheduler.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem {
namespace {

std::unique_ptr<Reply> TakeOut(std::vector<std::unique_ptr<Reply>>& replies, const Reply* reply) {
  const auto it = std::find_if(replies.begin(), replies.end(),
                               [reply](const auto& candidate) { return candidate.get() == reply; });
  if (it == replies.end()) return nullptr;
  std::unique_ptr<Reply> taken = std::move(*it);
  replies.erase(it);
  return taken;
}

}  // namespace

void Scheduler::Enqueue(std::unique_ptr<Reply> reply) {
  by_id_.emplace(reply->input().request_id, reply.get());
  by_handle_.emplace(reply->handle(), reply.get());
  waiting_.push_back(std::move(reply));
}

Reply* Scheduler::NextWaiting(bool resident_only) const {
  Reply* best = nullptr;
  for (const auto& reply : waiting_) {
    if (resident_only && !reply->session().resident()) continue;
    if (best == nullptr || reply->input().priority > best->input().priority) best = reply.get();
  }
  return best;
}

void Scheduler::Start(Reply* reply) {
  std::unique_ptr<Reply> taken = TakeOut(waiting_, reply);
  CHECK(taken != nullptr);
  running_.push_back(std::move(taken));
}

void Scheduler::Remove(Reply* reply) {
  by_id_.erase(reply->input().request_id);
  by_handle_.erase(reply->handle());
  if (TakeOut(running_, reply) == nullptr) CHECK(TakeOut(waiting_, reply) != nullptr);
}

Reply* Scheduler::Find(uint64_t handle) const {
  const auto it = by_handle_.find(handle);
  return it == by_handle_.end() ? nullptr : it->second;
}

Reply* Scheduler::FindById(const std::string& request_id) const {
  const auto it = by_id_.find(request_id);
  return it == by_id_.end() ? nullptr : it->second;
}

bool Scheduler::runnable() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& reply) { return !reply->paused_since.has_value(); });
}

int Scheduler::decoding() const {
  return static_cast<int>(std::count_if(running_.begin(), running_.end(), [](const auto& reply) {
    return !reply->prefilling() && !reply->paused_since.has_value();
  }));
}

int Scheduler::Wanted(const Reply& reply, int lanes) const {
  const int64_t useful = std::max<int64_t>(0, reply.remaining() - 1);
  return static_cast<int>(
      std::min<int64_t>({options_->schedule.DraftsFor(lanes), reply.input().max_drafts, useful}));
}

PlannedLane Scheduler::DecodeLane(Reply& reply, int drafts, Undrafted missing) const {
  PlannedLane lane{.reply = &reply, .certain = 1, .choose = true};
  CHECK_EQ(reply.session().pending(), 1);
  const bool current = reply.drafts_position == reply.session().position();
  const int available = current ? static_cast<int>(reply.drafts.size()) : 0;
  const int wanted = std::min<int64_t>({drafts, reply.input().max_drafts, reply.remaining() - 1});
  lane.drafts = std::min(wanted, available);
  if (reply.input().max_drafts == 0) {
    lane.undrafted = Undrafted::kRequestOff;
  } else if (drafts == 0) {
    lane.undrafted = Undrafted::kBatchSize;
  } else if (wanted == 0) {
    lane.undrafted = Undrafted::kCost;
  } else {
    lane.undrafted = missing;
  }
  return lane;
}

StepPlan Scheduler::Plan(Undrafted missing) const {
  StepPlan plan{.decoding = decoding()};
  plan.drafts = plan.decoding > 0 ? options_->schedule.DraftsFor(plan.decoding) : 0;
  for (const auto& reply : running_) {
    if (reply->prefilling() || reply->paused_since.has_value()) continue;
    plan.lanes.push_back(DecodeLane(*reply, plan.drafts, missing));
  }
  int budget = options_->prefill_budget;
  for (const auto& reply : running_) {
    if (!reply->prefilling() || reply->paused_since.has_value() || budget == 0) continue;
    const int certain = reply->NextCertain(std::min(budget, options_->prefill_chunk));
    plan.lanes.push_back({.reply = reply.get(),
                          .certain = certain,
                          .choose = certain == reply->session().pending()});
    budget -= certain;
  }
  for (const PlannedLane& lane : plan.lanes) plan.rows += lane.certain + lane.drafts;
  return plan;
}

}  // namespace tandem
