#include "common/rpc/generate_merge.h"

namespace tandem {

void AppendDelta(v1::Delta& into, v1::Delta& from) {
  into.mutable_text()->append(from.text());
  into.mutable_reasoning_text()->append(from.reasoning_text());
  into.mutable_token_ids()->MergeFrom(from.token_ids());
  into.mutable_logprobs()->MergeFrom(from.logprobs());
  into.mutable_rounds()->MergeFrom(from.rounds());
}

bool MergeGenerateResponse(v1::GenerateResponse& into, v1::GenerateResponse& from) {
  if (!into.has_delta() || !from.has_delta()) return false;
  AppendDelta(*into.mutable_delta(), *from.mutable_delta());
  return true;
}

}  // namespace tandem
