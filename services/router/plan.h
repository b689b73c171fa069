#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/rpc/metadata.h"
#include "services/router/reply.h"
#include "services/router/served_model.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// A client's request, validated and in token ids: what the relay needs to get it answered by any
// verifier, as often as it takes.
struct Plan {
  std::string request_id = {};
  std::shared_ptr<const ServedModel> model = {};
  std::vector<uint32_t> input_ids = {};    // new tokens, behind the session's
  std::vector<uint32_t> emitted_ids = {};  // of the reply, known to the client already
  uint64_t seed = 0;
  uint32_t max_tokens = 0;
  ReplyOptions reply = {};
  // Sampling with the seed, stopping without texts, output, speculation, priority: the same for
  // every verifier. Input, session, resume and request id are added per attempt.
  v1::GenerateRequest base = {};

  // True for ids that end the reply when they are emitted (include_stop_in_output).
  bool IsStopToken(uint32_t id) const;
};

// Renders chat, encodes text, fixes seed and request id of a request that passed ValidateGenerate.
// `history` holds the tokens of the session that is continued; empty without one. INVALID_ARGUMENT
// naming the field for what is not UTF-8 or no conversation, OUT_OF_RANGE for a prompt beyond the
// model's limit, FAILED_PRECONDITION for an empty session that is given nothing to continue.
absl::StatusOr<Plan> MakePlan(const v1::GenerateRequest& request, const RequestMetadata& metadata,
                              std::shared_ptr<const ServedModel> model,
                              absl::Span<const uint32_t> history);

// The ids of a text or chat input outside of a session, for Tokenize.
absl::StatusOr<std::vector<uint32_t>> EncodeInput(const v1::TokenizeRequest& request,
                                                  const Vocabulary& vocabulary);

}  // namespace tandem
