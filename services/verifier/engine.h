#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/model/rwkv7.h"
#include "services/verifier/draft_port.h"
#include "services/verifier/engine_options.h"
#include "services/verifier/inbox.h"
#include "services/verifier/session.h"
#include "services/verifier/token_sink.h"

namespace tandem {

class EngineLoop;

// What a router or a probe wants to know; read by any thread.
struct EngineLoad {
  bool accepting = false;
  int slots = 0;
  int slots_used = 0;
  int active = 0;  // requests that hold a slot
  int queued = 0;  // requests that wait for one
  int sessions = 0;
  int max_sessions = 0;
  // Since the last finished step, while there is work; zero when there is none.
  absl::Duration stalled = {};
};

// The verifier's loop: admits requests, runs passes of the base model over all of them, and hands
// tokens to their sinks. All methods are thread-safe and return at once; callbacks run on the
// engine's thread. Output of a request depends on its input only: not on drafts, batch mates,
// chunking or a session's history of spills.
class Engine final {
 public:
  // Everything passed in must outlive the engine. RESOURCE_EXHAUSTED when the backend lacks memory.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Backend* backend, const Rwkv7* model,
                                                        DraftPort* port, VerifierMetrics* metrics,
                                                        EngineOptions options);
  // Ends the engine's thread; requests that are left fail with UNAVAILABLE.
  ~Engine();

  // Starts the engine's thread.
  void Start();
  // One turn of the loop for an owner that has no thread started: commands, then at most one pass.
  // Waits up to `idle` for a command when there is nothing to do. True when a pass ran.
  bool RunOnce(absl::Duration idle);

  // Errors before Started: UNAVAILABLE DRAINING, ALREADY_EXISTS, NOT_FOUND, FAILED_PRECONDITION
  // SESSION_BUSY and POSITION_DIFFERS, INVALID_ARGUMENT EMPTY_INPUT, OUT_OF_RANGE PROMPT_TOO_LONG,
  // DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED QUEUE_FULL with a retry hint. The result names the
  // request for Drop.
  uint64_t Submit(GenerationInput input, std::shared_ptr<TokenSink> sink);
  // The client is gone: as Cancel without `retain`, for the request of a Submit. Unknown ones are
  // ignored.
  void Drop(uint64_t handle);
  // Ends a live request with CANCELLED, its session as it was before; or, with `retain`, ends its
  // reply after so many tokens (those of GenerationInput::emitted included) with kStopText and cuts
  // the session there, which is also possible for the request that finished last on a session. A
  // finished request is OK, an unknown one NOT_FOUND, more tokens than the reply has OUT_OF_RANGE.
  void Cancel(std::string request_id, std::optional<int64_t> retain,
              std::function<void(absl::Status)> done);

  // ALREADY_EXISTS, RESOURCE_EXHAUSTED, UNAVAILABLE while draining.
  void OpenSession(SessionOptions options, std::function<void(absl::StatusOr<SessionInfo>)> done);
  void DescribeSession(std::string id, std::function<void(absl::StatusOr<SessionInfo>)> done);
  // Up to `limit` sessions with id > after, by id.
  void ListSessions(std::string after, int limit,
                    std::function<void(std::vector<SessionInfo>)> done);
  void CloseSession(std::string id, std::function<void(absl::Status)> done);

  // A stream of the router begins, or ends: the lease of the sessions opened with its id. They are
  // closed when none has been open for EngineOptions::router_grace.
  void RouterJoined(std::string router_id);
  void RouterLeft(std::string router_id);

  // Refuses new work, lets requests finish until `timeout`, fails the rest with UNAVAILABLE, then
  // calls `done`. A second call can only shorten the time.
  void Drain(absl::Duration timeout, std::function<void()> done);

  EngineLoad load() const;

 private:
  struct Shared;
  Engine(std::unique_ptr<Shared> shared, std::unique_ptr<EngineLoop> loop);
  void ShowLoad();

  std::unique_ptr<Shared> shared_;    // what every thread may touch
  std::unique_ptr<EngineLoop> loop_;  // what only the engine's thread touches
  std::thread thread_;
};

}  // namespace tandem
