#pragma once

#include "absl/status/status.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// Where a reply goes: a stream or a single answer. Thread-safe; nothing blocks.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // `tokens` of it wait for a slow client until they are written.
  virtual void Send(v1::GenerateResponse message, int tokens) = 0;
  // `outcome` is what trailer and metrics say. Only the first End counts.
  virtual void End(const absl::Status& status, absl::StatusCode outcome) = 0;
  virtual int pending_tokens() const = 0;
};

}  // namespace tandem
