#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/metadata.h"
#include "common/rpc/reply_sink.h"
#include "grpcpp/alarm.h"
#include "services/router/attempt.h"
#include "services/router/plan.h"
#include "services/router/relay_context.h"
#include "services/router/reply.h"
#include "services/router/reply_times.h"
#include "services/router/session_table.h"

namespace tandem {

// One client's request on its way through verifiers. When a verifier dies, drains or fails, the
// request goes on with the next token on that or another one: same seed, same input, the emitted
// tokens as emitted. All work is done on the gRPC threads that bring the events, one at a time;
// only what Cancel and ClientCaughtUp touch is locked.
class Relay final : public AttemptOwner, public std::enable_shared_from_this<Relay> {
 public:
  struct Request {
    Plan plan = {};
    RequestMetadata metadata = {};
    absl::Time arrival = {};
    absl::Time deadline = absl::InfiniteFuture();
    std::unique_ptr<SessionUse> session = {};
  };

  // INVALID_ARGUMENT for stop texts that cannot be matched.
  static absl::StatusOr<std::shared_ptr<Relay>> Create(const RelayContext* context,
                                                       Request request);
  ~Relay() override;
  void Start(std::shared_ptr<ReplySink> sink);

  // The reply is not wanted any more: CANCELLED. Any thread, any number of times.
  void Cancel();
  // Messages were written to the client.
  void ClientCaughtUp();

  void OnResponse(v1::GenerateResponse& response) override;
  bool WantsPause() override;
  void OnPaused() override;
  void OnEnd(const absl::Status& status) override;

 private:
  Relay(const RelayContext* context, Request request, Reply reply);

  // Finding a verifier.
  void Submit();
  void SubmitTo(const std::shared_ptr<Worker>& worker, bool resident);
  void OpenSessionOn(const std::shared_ptr<Worker>& worker);
  v1::GenerateRequest MakeRequest(bool resident);
  void WaitAndSubmit(const absl::Status& why);
  void OnFailure(const absl::Status& status, bool retryable, const std::shared_ptr<Worker>& worker);
  bool MoveSession(const absl::Status& status);
  bool Hop(const absl::Status& status, const std::shared_ptr<Worker>& worker);
  bool FinishLocally();

  // The reply.
  void OnStarted(const v1::Started& started);
  void OnDelta(const v1::Delta& delta);
  void OnFinished(const v1::Finished& finished);
  void SendDelta(v1::Delta delta);
  void StopAtText(int stop_index);
  // The attempt is over, or the verifier confirmed the position; the second of them finishes.
  void StopPartDone();
  void FinishStop();
  void CommitSession(const v1::Finished* finished);
  void Finish(v1::Finished finished);
  void Fail(const absl::Status& status);
  void Conclude();

  bool cancelled() const;
  // Nothing more is wanted from the verifier.
  bool abandoned() const;
  std::shared_ptr<Attempt> attempt() const;
  // `call` hears whether the time has come, or the alarm was taken back.
  void StartAlarm(absl::Time time, std::function<void(bool rang)> call);

  const RelayContext* const context_;
  Request request_;
  Reply reply_;
  ReplyTimes times_;
  std::shared_ptr<ReplySink> sink_;

  bool started_ = false;    // the client got `started`
  bool submitted_ = false;  // a verifier had the request
  bool ended_ = false;      // the client got its result
  std::optional<int> stop_index_ = {};
  std::optional<v1::Failed> failed_ = {};  // of the attempt that runs
  absl::Status broken_ = {};               // the verifier's messages make no sense
  bool attempt_started_ = false;
  int attempts_ = 0;
  int internal_failures_ = 0;
  int session_moves_ = 0;
  std::shared_ptr<Worker> full_ = {};  // refused with RESOURCE_EXHAUSTED
  absl::Time give_up_ = absl::InfiniteFuture();
  absl::Duration back_off_ = {};

  mutable absl::Mutex mutex_;
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool slow_ ABSL_GUARDED_BY(mutex_) = false;
  bool retained_ ABSL_GUARDED_BY(mutex_) = true;  // the verifier took the stop's position
  int stop_parts_ ABSL_GUARDED_BY(mutex_) = 2;    // the attempt's end, the verifier's confirmation
};

}  // namespace tandem
