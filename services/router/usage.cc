#include "services/router/usage.h"

#include <algorithm>

namespace tandem {
namespace {

// Adds 1 to each of the first `depths` counts; the list has at least `length` entries then.
void CountDepths(uint32_t depths, uint32_t length,
                 google::protobuf::RepeatedField<uint32_t>& by_depth) {
  while (static_cast<uint32_t>(by_depth.size()) < length) by_depth.Add(0);
  for (uint32_t depth = 0; depth < depths; ++depth) ++*by_depth.Mutable(depth);
}

}  // namespace

void UsageCounter::AddRound(const v1::Round& round, uint32_t kept) {
  if (kept == 0) return;
  const uint32_t accepted = std::min(round.accepted(), round.drafted());
  usage_.set_generated_tokens(usage_.generated_tokens() + kept);
  usage_.set_drafted_tokens(usage_.drafted_tokens() + round.drafted());
  usage_.set_accepted_tokens(usage_.accepted_tokens() + accepted);
  usage_.set_retained_tokens(usage_.retained_tokens() + std::min(accepted, kept));
  usage_.set_rounds(usage_.rounds() + 1);
  if (round.drafted() > 0) usage_.set_draft_rounds(usage_.draft_rounds() + 1);
  CountDepths(round.drafted(), round.drafted(), *usage_.mutable_drafted_by_depth());
  CountDepths(accepted, round.drafted(), *usage_.mutable_accepted_by_depth());
}

void UsageCounter::SetPrompt(uint32_t prompt_tokens, uint32_t cached_prompt_tokens) {
  usage_.set_prompt_tokens(prompt_tokens);
  usage_.set_cached_prompt_tokens(cached_prompt_tokens);
}

}  // namespace tandem
