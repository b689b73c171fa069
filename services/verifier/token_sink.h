#pragma once

#include "services/verifier/generation.h"

namespace tandem {

// Where one request's output goes. Started (unless the request fails before), any number of Round,
// then exactly one of Finished and Failed; nothing after it. Called by the engine's thread; no call
// may block.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Started(const ReplyStarted& started) = 0;
  virtual void Round(ReplyRound round) = 0;
  virtual void Finished(const ReplyFinished& finished) = 0;
  virtual void Failed(const ReplyFailed& failed) = 0;

  // Tokens taken by Round that have not left for the client.
  virtual int unsent_tokens() const = 0;
};

}  // namespace tandem
