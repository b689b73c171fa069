#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tandem/v1/session.grpc.pb.h"
#include "tandem/v1/worker.grpc.pb.h"

namespace tandem {

// How a fake verifier behaves. Replies follow a script: token i of a reply is script[i], whatever
// the prompt; a resumed request must bring along exactly the script's first tokens.
struct FakeBehaviour {
  std::vector<uint32_t> script = {};
  std::vector<int> rounds = {3, 1, 4, 2};  // tokens per step, again and again
  int drafted = 3;                         // drafts per round; a round of n tokens accepted n - 1
  absl::Duration step = {};                // time per round
  // Reply tokens after which the call breaks off with UNAVAILABLE, once for each entry.
  std::vector<size_t> breaks_at = {};
  // Reply tokens after which a `failed` event comes, once.
  std::optional<size_t> fails_at = {};
  v1::Failed failure = {};
  // Calls that are refused at the door with this status.
  int refusals = 0;
  grpc::Status refusal = grpc::Status::OK;
  uint32_t slots = 8;
  uint32_t slots_used = 0;  // told on top of what really runs
  bool accepting = true;
  std::string model_hash = "00000000000000aa";
  std::string weight_format = "bf16";
  uint32_t max_prompt_tokens = 1 << 20;
  std::optional<uint32_t> max_sessions = {};  // told and kept
};

// A verifier's services without a model, in this process.
class FakeVerifier final {
 public:
  explicit FakeVerifier(FakeBehaviour behaviour);
  ~FakeVerifier();

  // On the port of before, with a new instance id: nothing of the past is known.
  void Start();
  // Ends every call at once, as a killed process does.
  void Kill();

  std::string address() const;
  void Edit(const std::function<void(FakeBehaviour&)>& edit) {
    const absl::MutexLock lock(&mutex_);
    edit(behaviour_);
  }
  // Generate requests in the order of their arrival.
  std::vector<v1::GenerateRequest> requests() const;
  int running() const {
    const absl::MutexLock lock(&mutex_);
    return static_cast<int>(live_.size());
  }
  // Calls that ended because the client cancelled.
  int cancelled() const {
    const absl::MutexLock lock(&mutex_);
    return cancelled_;
  }
  // Tokens of every session.
  std::map<std::string, std::vector<uint32_t>> sessions() const;
  void DropSessions();
  // router_id of every WatchLoad and OpenSession so far.
  std::set<std::string> router_ids() const;
  // Metadata value of the last Generate, empty if absent.
  std::string last_metadata(const std::string& key) const;

 private:
  friend class FakeGeneration;
  friend class FakeSessions;
  friend class FakeWorker;
  struct Services;
  struct Live {
    std::optional<uint32_t> retain = {};
    bool dropped = false;
  };
  struct Finished {
    std::string session = {};
    uint64_t begin = 0;  // of the reply
  };

  mutable absl::Mutex mutex_;
  FakeBehaviour behaviour_ ABSL_GUARDED_BY(mutex_);
  std::string instance_id_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> metadata_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Live> live_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Finished> finished_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<uint32_t>> sessions_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> router_ids_ ABSL_GUARDED_BY(mutex_);
  int cancelled_ ABSL_GUARDED_BY(mutex_) = 0;
  int port_ = 0;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tandem
