#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/metrics/metrics.h"
#include "services/verifier/engine_options.h"
#include "services/verifier/reply.h"

namespace tandem {

// One reply's part in the next pass.
struct PlannedLane {
  Reply* reply = nullptr;
  int certain = 0;
  int drafts = 0;                            // taken from the front of reply->drafts
  bool choose = false;                       // all certain tokens are in this pass
  Undrafted undrafted = Undrafted::kWarmUp;  // why a lane that chooses has no drafts
};

struct StepPlan {
  std::vector<PlannedLane> lanes = {};
  int decoding = 0;  // lanes past their prompt, which come first
  int drafts = 0;    // K by the schedule
  int rows = 0;
};

// All requests: those that wait for a slot and those that run. Engine thread only.
class Scheduler final {
 public:
  explicit Scheduler(const EngineOptions* options) : options_(options) {}

  void Enqueue(std::unique_ptr<Reply> reply);
  // Of the waiting replies, or of those whose session is resident, the one to admit first: by
  // priority, then arrival; null when there is none.
  Reply* NextWaiting(bool resident_only) const;
  void Start(Reply* reply);
  // Ends the reply's life here, waiting or running.
  void Remove(Reply* reply);

  Reply* Find(uint64_t handle) const;
  Reply* FindById(const std::string& request_id) const;
  const std::vector<std::unique_ptr<Reply>>& waiting() const { return waiting_; }
  const std::vector<std::unique_ptr<Reply>>& running() const { return running_; }
  bool empty() const { return waiting_.empty() && running_.empty(); }
  // True when a pass would have a lane.
  bool runnable() const;

  // Every decoding lane, then prompt chunks within the budget, in order of admission. `missing` is
  // the reason for a lane that should have had drafts.
  StepPlan Plan(Undrafted missing) const;
  // Running replies past their prompt that are not paused.
  int decoding() const;
  // Drafts that the reply's next round can use while `lanes` decode; 0 for a reply that draws its
  // last token.
  int Wanted(const Reply& reply, int lanes) const;

 private:
  PlannedLane DecodeLane(Reply& reply, int drafts, Undrafted missing) const;

  const EngineOptions* const options_;
  std::vector<std::unique_ptr<Reply>> waiting_;
  std::vector<std::unique_ptr<Reply>> running_;
  std::unordered_map<std::string, Reply*> by_id_;
  std::unordered_map<uint64_t, Reply*> by_handle_;
};

}  // namespace tandem
