#pragma once

#include "tandem/v1/generation.pb.h"

namespace tandem {

// Appends the contents of `from` to `into`: texts, ids, logprobs and rounds in order.
void AppendDelta(v1::Delta& into, v1::Delta& from);

// For StreamCore: two neighbouring deltas become one; other events stay messages of their own.
bool MergeGenerateResponse(v1::GenerateResponse& into, v1::GenerateResponse& from);

}  // namespace tandem
