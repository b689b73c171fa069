#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/string_ref.h"

namespace tandem {

// The outcome of a call by code name, repeated in the trailing metadata for proxies.
inline constexpr char kOutcomeTrailer[] = "tandem-outcome";
inline constexpr char kPriorityMetadata[] = "tandem-priority";

// What a caller sends beside the message.
struct RequestMetadata {
  std::optional<int32_t> priority = {};  // -100 to 100
  std::string traceparent = {};          // W3C trace context, empty if absent
  std::string tracestate = {};
};

// INVALID_ARGUMENT where tandem-priority, traceparent, tracestate or authorization is repeated or
// malformed, naming the key.
absl::StatusOr<RequestMetadata> ParseMetadata(
    const std::multimap<grpc::string_ref, grpc::string_ref>& metadata);

// Adds what has to reach every hop to an outgoing call.
void Propagate(const RequestMetadata& metadata, grpc::ClientContext& context);

}  // namespace tandem
