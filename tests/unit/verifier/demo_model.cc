#include "tests/unit/verifier/demo_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/drafter/mtp/mtp.h"
#include "common/model/weights_source.h"
#include "services/verifier/inprocess_draft_port.h"

namespace tandem {
namespace {

constexpr char kFolder[] = "deploy/demo-model";

std::vector<GoldenCase> ReadCases() {
  const auto text = ReadFile(std::string(kFolder) + "/golden/golden.json", 1 << 24);
  CHECK_OK(text.status());
  std::vector<GoldenCase> cases;
  const nlohmann::json golden = nlohmann::json::parse(*text);
  for (const auto& entry : golden.at("cases")) {
    cases.push_back({.task = entry.at("task"),
                     .ids = entry.at("ids").get<std::vector<int32_t>>(),
                     .greedy = entry.at("greedy_96").get<std::vector<int32_t>>(),
                     .margins = entry.at("greedy_margin").get<std::vector<double>>(),
                     .k3_accepted = entry.at("spec_k3_accepted_per_step").get<std::vector<int>>()});
  }
  return cases;
}

DemoModel LoadDemo() {
  DemoModel demo;
  demo.backend = MakeCpuBackend(2);
  auto source = WeightsSource::Open(kFolder);
  CHECK_OK(source.status());
  auto weights = ModelWeights::Load(demo.backend.get(), **source);
  CHECK_OK(weights.status());
  demo.weights = std::move(*weights);
  demo.model = std::make_unique<Rwkv7>(demo.weights.get());
  const ModelConfig& config = demo.weights->config();
  auto sidecar = MtpFile::Open(std::string(kFolder) + "/mtp",
                               {.name = demo.weights->name(),
                                .layers = config.layers,
                                .width = config.width,
                                .vocab = config.vocab},
                               false);
  CHECK_OK(sidecar.status());
  demo.sidecar = std::move(*sidecar);
  demo.cases = ReadCases();
  return demo;
}

// Memory of the one-token decoder.
struct Decoder {
  Decoder() {
    const DemoModel& demo = Demo();
    Backend* const backend = demo.backend.get();
    const size_t vocab = demo.weights->config().vocab;
    auto made_state = RecurrentState::Create(backend, demo.weights->config(), 1);
    CHECK_OK(made_state.status());
    state = std::move(*made_state);
    auto made = Activations::Create(backend, demo.weights->config(), 2048, 1, 1);
    CHECK_OK(made.status());
    activations = std::move(*made);
    const auto floats = [backend](size_t count) {
      return View<float>{static_cast<float*>(backend->Allocate(count * 4)), count};
    };
    const auto ints = [backend](size_t count) {
      return View<int32_t>{static_cast<int32_t*>(backend->Allocate(count * 4)), count};
    };
    constexpr size_t kDepths = kMaxDrafts + 1;
    args.vocab = args.usable_vocab = static_cast<int>(vocab);
    args.counts = floats(vocab);
    args.seen = {static_cast<uint8_t*>(backend->Allocate(vocab)), vocab};
    args.accepted = {state->accepted(), 1};
    args.emitted = ints(1);
    args.tokens = ints(kDepths);
    args.logprobs = floats(kDepths);
    args.top_ids = ints(kDepths * kMaxTopLogprobs);
    args.top_values = floats(kDepths * kMaxTopLogprobs);
    args.scratch = floats(AcceptScratchFloats(static_cast<int>(vocab)));
  }

  std::unique_ptr<RecurrentState> state;
  std::unique_ptr<Activations> activations;
  AcceptArgs args;
};

}  // namespace

const DemoModel& Demo() {
  static const DemoModel* const demo = new DemoModel(LoadDemo());
  return *demo;
}

std::unique_ptr<DraftPort> MakeMtpPort(int slots, int max_rows) {
  const DemoModel& demo = Demo();
  const ModelConfig& config = demo.weights->config();
  auto mtp = Mtp::Create(demo.backend.get(), *demo.sidecar,
                         {.vocab = config.vocab,
                          .embedding = demo.weights->embedding(),
                          .head = demo.weights->head(),
                          .slots = slots,
                          .max_lanes = slots,
                          .max_rows = max_rows});
  CHECK_OK(mtp.status());
  const auto& taps = demo.sidecar->config().fuse_layers;
  return InProcessDraftPort::Create(demo.backend.get(),
                                    {.taps = {taps[0], taps[1]},
                                     .width = config.width,
                                     .max_rows = max_rows,
                                     .vocab = config.vocab},
                                    std::move(*mtp));
}

ReferenceReply Reference(const GenerationInput& input, const std::vector<int32_t>& history) {
  static Decoder* const decoder = new Decoder();
  const DemoModel& demo = Demo();
  Slot slot = std::move(*decoder->state->Acquire());
  std::vector<int32_t> fed = history;
  fed.insert(fed.end(), input.prompt.begin(), input.prompt.end());
  AcceptArgs args = decoder->args;
  demo.backend->Zero(args.counts.data, args.counts.size * 4);
  std::vector<uint8_t> seen(args.seen.size, 0);
  for (const int32_t id : fed) seen[id] = kSeenInPrompt;
  demo.backend->CopyIn(args.seen.data, seen.data(), seen.size());
  std::vector<int32_t> ends = input.stop_ids;
  if (!input.ignore_eos) ends.push_back(0);

  ReferenceReply reply;
  int64_t position = static_cast<int64_t>(fed.size());
  DecodeBatch batch;
  while (static_cast<int>(reply.tokens.size()) < input.max_tokens) {
    batch.Clear();
    batch.AddLane(slot.index(), fed, {}, true);
    demo.model->Forward(batch, *decoder->state, *decoder->activations, FeatureTap{});
    AcceptLane lane;
    lane.rows = 1;
    lane.generated = static_cast<int32_t>(reply.tokens.size());
    lane.position = position++;
    lane.sampling = input.sampling;
    lane.bias_ids = {input.bias_ids.data(), input.bias_ids.size()};
    lane.bias_values = {input.bias_values.data(), input.bias_values.size()};
    lane.end_ids = {ends.data(), ends.size()};
    args.lanes = {&lane, 1};
    args.logits = decoder->activations->logits();
    args.row_tokens = decoder->activations->row_tokens();
    demo.backend->Accept(args);
    demo.backend->Wait();
    const int32_t token = args.tokens[0];
    const bool ends_here = std::find(ends.begin(), ends.end(), token) != ends.end();
    if (ends_here) reply.cause = FinishCause::kStopToken;
    if (ends_here && !input.include_stop) return reply;
    reply.tokens.push_back(token);
    reply.logprobs.push_back(args.logprobs[0]);
    if (ends_here) return reply;
    fed = {token};
  }
  return reply;
}

}  // namespace tandem
