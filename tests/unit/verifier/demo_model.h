#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/drafter/mtp/mtp_file.h"
#include "common/model/rwkv7.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "services/verifier/draft_port.h"
#include "services/verifier/generation.h"

namespace tandem {

struct GoldenCase {
  std::string task;
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;   // 96 tokens after ids
  std::vector<double> margins;   // gap of the two best logits at each of them
  std::vector<int> k3_accepted;  // drafts accepted per step of greedy decoding with K = 3
};

// The demo model, loaded once per test program and used by one thread at a time.
struct DemoModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<ModelWeights> weights;
  std::unique_ptr<Rwkv7> model;
  std::unique_ptr<MtpFile> sidecar;
  std::vector<GoldenCase> cases;  // 8
};
const DemoModel& Demo();

// The demo sidecar on the engine's thread.
std::unique_ptr<DraftPort> MakeMtpPort(int slots, int max_rows);

// What the model says after `history` and the input's prompt, one token per pass, without engine,
// drafts or batch mates: the tokens of the reply with stops and limits applied.
struct ReferenceReply {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  FinishCause cause = FinishCause::kMaxTokens;
};
ReferenceReply Reference(const GenerationInput& input, const std::vector<int32_t>& history = {});

}  // namespace tandem
