#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/verifier/generation.h"
#include "services/verifier/session.h"
#include "services/verifier/step.h"
#include "services/verifier/token_sink.h"

namespace tandem {

// Why a reply is over.
struct Ending {
  FinishCause cause = FinishCause::kMaxTokens;
  int32_t stop_token = -1;
};

// One request's way through the engine: waiting, then running on its session. Engine thread only.
class Reply final {
 public:
  // `kept`: the session that the request continues, or null for one of its own.
  Reply(uint64_t handle, GenerationInput input, std::shared_ptr<TokenSink> sink, Session* kept,
        absl::Time arrival);

  uint64_t handle() const { return handle_; }
  const GenerationInput& input() const { return input_; }
  Session& session() const { return *session_; }
  TokenSink& sink() const { return *sink_; }
  absl::Time arrival() const { return arrival_; }

  // Admission: the session, which is resident, takes prompt and emitted tokens; the sink learns of
  // the start.
  void Begin(RecurrentState& state, absl::Time now);
  bool running() const { return admitted_.has_value(); }
  // Until the first token is chosen.
  bool prefilling() const { return !first_token_.has_value(); }
  // Certain tokens that the next pass may take at most `limit` of; stops at the end of the prompt
  // where the state is to be kept.
  int NextCertain(int limit) const;
  int64_t generated() const { return session_->position() - session_->reply_begin; }
  int64_t remaining() const { return input_.max_tokens - generated(); }

  // What a pass gave: `certain` tokens consumed and, where the lane chose, `choice` after `drafted`
  // drafts. Tokens are walked in order and the first terminal condition wins; the session takes
  // what is kept. The round is empty where nothing is emitted.
  struct Taken {
    ReplyRound round = {};
    int trimmed = 0;
    std::optional<Ending> ending = {};
  };
  Taken Take(int certain, int drafted, LaneChoice choice, absl::Time now);

  // Usage as if the reply ended after `retain` of its tokens, GenerationInput::emitted included.
  ReplyUsage UsageUpTo(int64_t retain) const;
  const ReplyUsage& usage() const { return usage_; }
  ReplyTimings Timings(absl::Time now) const;

  // Drafts for the next round, valid while the session's position is `drafts_position`.
  std::vector<int32_t> drafts;
  int64_t drafts_position = -1;
  // Set while the client reads too slowly.
  std::optional<absl::Time> paused_since;

 private:
  struct Walked {
    int kept = 0;
    std::optional<Ending> ending = {};
  };
  Walked Walk(absl::Span<const int32_t> tokens) const;
  void Count(int drafted, int accepted, int kept);

  const uint64_t handle_;
  const GenerationInput input_;
  const std::shared_ptr<TokenSink> sink_;
  std::unique_ptr<Session> own_;
  Session* const session_;
  const absl::Time arrival_;
  std::optional<absl::Time> admitted_;
  std::optional<absl::Time> first_token_;
  ReplyUsage usage_;
  std::vector<std::pair<int, int>> rounds_;  // kept tokens and how many of them were drafts
};

}  // namespace tandem
