#pragma once

#include <cstdint>

#include "tandem/v1/generation.pb.h"

namespace tandem {

// Usage of one reply, counted from its emitted tokens and the rounds that gave them, so that it
// does not depend on how many verifiers took part.
class UsageCounter final {
 public:
  // A round of which `kept` tokens were emitted; rounds that kept none do not count.
  void AddRound(const v1::Round& round, uint32_t kept);
  void SetPrompt(uint32_t prompt_tokens, uint32_t cached_prompt_tokens);
  const v1::Usage& usage() const { return usage_; }

 private:
  v1::Usage usage_;
};

}  // namespace tandem
