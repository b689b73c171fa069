#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/rpc/metadata.h"
#include "common/rpc/validate.h"
#include "services/verifier/generation.h"
#include "services/verifier/handoff.h"
#include "services/verifier/served_model.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// The engine's form of a request that ValidateGenerate accepted. What the caller left out is chosen
// here: request id and seed at random, the rest by the proto's defaults.
GenerationInput ToInput(const v1::GenerateRequest& request, const RequestLimits& limits,
                        const RequestMetadata& metadata, absl::Time deadline);

v1::FinishReason ReasonOf(FinishCause cause);
void Fill(const ReplyStarted& started, const std::string& request_id, const std::string& model,
          v1::Started* out);
void Fill(const ReplyRound& round, v1::Delta* out);
void Fill(const ReplyFinished& finished, v1::Finished* out);
void Fill(const ReplyFailed& failed, v1::Failed* out);
// The same failure as a status, for before `started`.
absl::Status ToStatus(const ReplyFailed& failed);

void Fill(const HandoffStatus& status, const std::string& schedule, v1::DrafterStatus* out);
void Fill(const ServedModel& model, const HandoffStatus& status, v1::GetModelResponse* out);

}  // namespace tandem
