#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/string_ref.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// The outcome of a call by code name, repeated in the trailing metadata for proxies.
inline constexpr char kOutcomeTrailer[] = "tandem-outcome";
inline constexpr char kPriorityMetadata[] = "tandem-priority";

// What a caller says of a generation beside its contents.
struct RequestMetadata {
  int32_t priority = 0;          // of the message, else of tandem-priority; -100 to 100 where valid
  std::string traceparent = {};  // W3C trace context, empty if absent
  std::string tracestate = {};
};

// INVALID_ARGUMENT where traceparent, tracestate, authorization or a tandem-priority that is needed
// is repeated or malformed, naming the key. The message's own priority is not checked here.
absl::StatusOr<RequestMetadata> ParseMetadata(
    const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
    const v1::GenerateRequest& request);

// Adds what has to reach every hop to an outgoing call; the priority travels in the message.
void Propagate(const RequestMetadata& metadata, grpc::ClientContext& context);

}  // namespace tandem
