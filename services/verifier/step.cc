#include "services/verifier/step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem {

namespace {

constexpr int kDepths = kMaxDrafts + 1;

// Hands out backend memory, or without a backend only counts it.
class Areas final {
 public:
  explicit Areas(Backend* backend) : backend_(backend) {}
  size_t bytes() const { return bytes_; }
  bool missing() const { return missing_; }

  template <class T>
  void Add(View<T>& view, size_t count) {
    bytes_ += count * sizeof(T);
    if (backend_ == nullptr) return;
    view = {static_cast<T*>(backend_->Allocate(count * sizeof(T))), count};
    missing_ = missing_ || view.data == nullptr;
  }

 private:
  Backend* backend_;
  size_t bytes_ = 0;
  bool missing_ = false;
};

}  // namespace

struct Step::Memory {
  std::unique_ptr<Activations> activations;
  View<AcceptLane> lanes;       // [B]
  View<float> counts;           // [S, V]
  View<uint8_t> seen;           // [S, V]
  View<int32_t> bias_ids;       // [S, kMaxBias]
  View<float> bias_values;      // [S, kMaxBias]
  View<int32_t> end_ids;        // [S, kMaxEndIds]
  View<int32_t> emitted;        // [B]
  View<int32_t> tokens;         // [B, kDepths]
  View<float> logprobs;         // [B, kDepths]
  View<int32_t> top_ids;        // [B, kDepths, kMaxTopLogprobs]
  View<float> top_values;       // as top_ids
  View<float> margins;          // [B, kDepths]
  View<float> scratch;          // [n, AcceptScratchFloats(V)]
  std::vector<int> bias_count;  // [S]
  std::vector<int> end_count;   // [S]

  DecodeBatch batch;
  std::vector<AcceptLane> host_lanes;  // [B]
  std::vector<int32_t> host_emitted;   // [B]
  std::vector<int32_t> host_tokens;    // [B, kDepths]
  std::vector<float> host_logprobs;    // [B, kDepths]
  std::vector<int32_t> host_top_ids;   // [B, kDepths, kMaxTopLogprobs]
  std::vector<float> host_top_values;  // as host_top_ids
  std::vector<float> host_margins;     // [B, kDepths]

  void LayOut(Areas& areas, size_t slots, size_t lane_count, size_t vocab, size_t threads) {
    areas.Add(lanes, lane_count);
    areas.Add(counts, slots * vocab);
    areas.Add(seen, slots * vocab);
    areas.Add(bias_ids, slots * kMaxBias);
    areas.Add(bias_values, slots * kMaxBias);
    areas.Add(end_ids, slots * kMaxEndIds);
    areas.Add(emitted, lane_count);
    areas.Add(tokens, lane_count * kDepths);
    areas.Add(logprobs, lane_count * kDepths);
    areas.Add(top_ids, lane_count * kDepths * kMaxTopLogprobs);
    areas.Add(top_values, lane_count * kDepths * kMaxTopLogprobs);
    areas.Add(margins, lane_count * kDepths);
    // As many choices at a time as the backend can work on, at most those of a pass.
    areas.Add(scratch, std::min(threads, lane_count * kDepths) *
                           static_cast<size_t>(AcceptScratchFloats(static_cast<int>(vocab))));
  }
};

size_t Step::Bytes(const Backend& backend, const ModelConfig& config, int slots,
                   const Options& options) {
  Memory memory;
  Areas areas(nullptr);
  memory.LayOut(areas, static_cast<size_t>(slots), static_cast<size_t>(options.max_lanes),
                static_cast<size_t>(config.vocab), static_cast<size_t>(backend.threads()));
  return areas.bytes() + Activations::Bytes(config, options.max_rows, options.max_lanes * kDepths,
                                            options.max_lanes);
}

Step::Step(Backend* backend, const Rwkv7* model, RecurrentState* state, const Options& options)
    : backend_(backend),
      model_(model),
      state_(state),
      options_(options),
      memory_(std::make_unique<Memory>()) {}

Step::~Step() = default;

absl::StatusOr<std::unique_ptr<Step>> Step::Create(Backend* backend, const Rwkv7* model,
                                                   RecurrentState* state, const Options& options) {
  std::unique_ptr<Step> step(new Step(backend, model, state, options));
  Memory& m = *step->memory_;
  const size_t slots = state->slots();
  const size_t lanes = options.max_lanes;
  const size_t vocab = model->config().vocab;
  ASSIGN_OR_RETURN(m.activations,
                   Activations::Create(backend, model->config(), options.max_rows,
                                       options.max_lanes * kDepths, options.max_lanes));
  Areas areas(backend);
  m.LayOut(areas, slots, lanes, vocab, static_cast<size_t>(backend->threads()));
  if (areas.missing()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the engine needs ", areas.bytes(), " bytes for its steps; lower --max-sequences"));
  }
  m.bias_count.assign(slots, 0);
  m.end_count.assign(slots, 0);
  m.host_emitted.resize(lanes);
  m.host_tokens.resize(lanes * kDepths);
  m.host_logprobs.resize(lanes * kDepths);
  m.host_top_ids.resize(lanes * kDepths * kMaxTopLogprobs);
  m.host_top_values.resize(lanes * kDepths * kMaxTopLogprobs);
  m.host_margins.resize(lanes * kDepths);
  return step;
}

void Step::BeginReply(const Slot& slot, absl::Span<const int32_t> prompt,
                      absl::Span<const int32_t> emitted, const GenerationInput& input) {
  Memory& m = *memory_;
  const size_t vocab = model_->config().vocab;
  const size_t s = slot.index();
  std::vector<float> counts(vocab, 0.0f);
  std::vector<uint8_t> seen(vocab, 0);
  for (const int32_t id : prompt) seen[id] |= kSeenInPrompt;
  const float decay = input.sampling.penalty_decay;
  for (const int32_t id : emitted) {  // in the order and arithmetic of the Accept op
    if (decay != 1.0f) {
      for (float& count : counts) count *= decay;
    }
    counts[id] += 1.0f;
    seen[id] |= kSeenInReply;
  }
  backend_->CopyIn(m.counts.data + s * vocab, counts.data(), vocab * sizeof(float));
  backend_->CopyIn(m.seen.data + s * vocab, seen.data(), vocab);

  CHECK_LE(input.bias_ids.size(), static_cast<size_t>(kMaxBias));
  m.bias_count[s] = static_cast<int>(input.bias_ids.size());
  backend_->CopyIn(m.bias_ids.data + s * kMaxBias, input.bias_ids.data(),
                   input.bias_ids.size() * sizeof(int32_t));
  backend_->CopyIn(m.bias_values.data + s * kMaxBias, input.bias_values.data(),
                   input.bias_values.size() * sizeof(float));
  std::vector<int32_t> end_ids = input.stop_ids;
  if (!input.ignore_eos) end_ids.push_back(0);
  CHECK_LE(end_ids.size(), static_cast<size_t>(kMaxEndIds));
  m.end_count[s] = static_cast<int>(end_ids.size());
  backend_->CopyIn(m.end_ids.data + s * kMaxEndIds, end_ids.data(),
                   end_ids.size() * sizeof(int32_t));
}

void Step::FillLanes(absl::Span<const StepLane> lanes) {
  Memory& m = *memory_;
  m.batch.Clear();
  m.host_lanes.clear();
  for (const StepLane& lane : lanes) {
    m.batch.AddLane(lane.slot->index(), lane.certain, lane.drafts, lane.choose);
    const size_t s = lane.slot->index();
    AcceptLane accept;
    accept.slot = lane.slot->index();
    if (lane.choose) {
      accept.first_row = m.batch.first_logit.back();
      accept.rows = 1 + static_cast<int>(lane.drafts.size());
      accept.generated = lane.generated;
      accept.position = lane.position;
      accept.simulated = lane.simulated;
      accept.sampling = *lane.sampling;
      accept.bias_ids = m.bias_ids.Sub(s * kMaxBias, m.bias_count[s]);
      accept.bias_values = m.bias_values.Sub(s * kMaxBias, m.bias_count[s]);
      accept.end_ids = m.end_ids.Sub(s * kMaxEndIds, m.end_count[s]);
    }
    m.host_lanes.push_back(accept);
  }
  CHECK_LE(m.batch.rows(), options_.max_rows);
  CHECK_LE(m.batch.lanes(), options_.max_lanes);
  backend_->CopyIn(m.lanes.data, m.host_lanes.data(), m.host_lanes.size() * sizeof(AcceptLane));
}

AcceptArgs Step::Args(int lanes, int rows) const {
  const Memory& m = *memory_;
  const int vocab = model_->config().vocab;
  return {
      .vocab = vocab,
      .usable_vocab = options_.usable_vocab > 0 ? std::min(options_.usable_vocab, vocab) : vocab,
      .logits = rows > 0 ? m.activations->logits() : View<const float>{},
      .row_tokens = rows > 0 ? m.activations->row_tokens() : View<const int32_t>{},
      .lanes = m.lanes.Sub(0, lanes),
      .counts = m.counts,
      .seen = m.seen,
      .accepted = {state_->accepted(), static_cast<size_t>(state_->slots())},
      .emitted = m.emitted,
      .tokens = m.tokens,
      .logprobs = m.logprobs,
      .top_ids = m.top_ids,
      .top_values = m.top_values,
      .margins = m.margins,
      .scratch = m.scratch};
}

// The lanes whose drafts are on the device; a token that stands for one until then is put in place.
std::vector<WantedDrafts> Step::Wanted(absl::Span<const StepLane> lanes) const {
  DecodeBatch& batch = memory_->batch;
  std::vector<WantedDrafts> wanted;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const int count = static_cast<int>(lanes[i].drafts.size());
    if (count == 0 || lanes[i].drafts[0] != kDraftOnDevice) continue;
    wanted.push_back({.slot = lanes[i].slot->index(),
                      .count = count,
                      .first_row = batch.offsets[i + 1] - count,
                      .first_logit = batch.first_logit[i] + 1});
    std::fill_n(batch.tokens.begin() + wanted.back().first_row, count, 0);
  }
  return wanted;
}

std::vector<LaneChoice> Step::Run(absl::Span<const StepLane> lanes, const FeatureTap& features,
                                  DeviceHandoff* device) {
  FillLanes(lanes);
  Memory& m = *memory_;
  const std::vector<WantedDrafts> wanted = Wanted(lanes);
  CHECK(wanted.empty() || device != nullptr);
  DraftWriter take;
  if (device != nullptr) {
    take = [&](View<int32_t> tokens, View<int32_t> row_tokens) {
      device->Take(wanted, tokens, row_tokens);
    };
  }
  model_->Forward(m.batch, *state_, *m.activations, features, take);
  backend_->Accept(Args(m.batch.lanes(), static_cast<int>(m.batch.logit_rows.size())));
  if (device != nullptr) device->Publish(m.emitted, m.tokens);
  std::vector<LaneChoice> choices = ReadChoices(lanes);
  if (device != nullptr) {
    const absl::Span<const int32_t> taken = device->Finish();
    for (size_t i = 0, next = 0; next < wanted.size(); ++i) {
      if (lanes[i].slot->index() == wanted[next].slot) choices[i].drafted = taken[next++];
    }
  }
  return choices;
}

std::vector<LaneChoice> Step::ReadChoices(absl::Span<const StepLane> lanes) {
  Memory& m = *memory_;
  const size_t count = lanes.size();
  bool wants_logprobs = false;
  for (const StepLane& lane : lanes)
    wants_logprobs |= lane.choose && lane.sampling->top_logprobs >= 0;
  backend_->CopyOut(m.host_emitted.data(), m.emitted.data, count * sizeof(int32_t));
  backend_->CopyOut(m.host_tokens.data(), m.tokens.data, count * kDepths * sizeof(int32_t));
  backend_->CopyOut(m.host_margins.data(), m.margins.data, count * kDepths * sizeof(float));
  if (wants_logprobs) {
    backend_->CopyOut(m.host_logprobs.data(), m.logprobs.data, count * kDepths * sizeof(float));
    const size_t top = count * kDepths * kMaxTopLogprobs;
    backend_->CopyOut(m.host_top_ids.data(), m.top_ids.data, top * sizeof(int32_t));
    backend_->CopyOut(m.host_top_values.data(), m.top_values.data, top * sizeof(float));
  }
  backend_->Wait();

  std::vector<LaneChoice> choices(count);
  const int listed_at_most = model_->config().vocab;
  for (size_t i = 0; i < count; ++i) {
    if (!lanes[i].choose) continue;
    choices[i].drafted = static_cast<int>(lanes[i].drafts.size());
    const int emitted = m.host_emitted[i];
    CHECK_GE(emitted, 1);
    CHECK_LE(emitted, static_cast<int>(lanes[i].drafts.size()) + 1);
    choices[i].accepted = emitted - 1;
    choices[i].tokens.assign(&m.host_tokens[i * kDepths], &m.host_tokens[i * kDepths] + emitted);
    const auto margins = m.host_margins.begin() + static_cast<int64_t>(i * kDepths);
    choices[i].near_ties = static_cast<int>(
        std::count_if(margins, margins + emitted, [](float margin) { return margin < kNearTie; }));
    if (lanes[i].sampling->top_logprobs < 0) continue;
    const int listed = std::min(lanes[i].sampling->top_logprobs, listed_at_most);
    for (int r = 0; r < emitted; ++r) {
      const size_t row = i * kDepths + r;
      TokenLogprobEntry entry{.logprob = m.host_logprobs[row]};
      for (int t = 0; t < listed; ++t) {
        entry.top.push_back({.token = m.host_top_ids[row * kMaxTopLogprobs + t],
                             .logprob = m.host_top_values[row * kMaxTopLogprobs + t]});
      }
      choices[i].logprobs.push_back(std::move(entry));
    }
  }
  return choices;
}

void Step::CheckDevice() {
  backend_->Zero(memory_->emitted.data, sizeof(int32_t));
  backend_->Wait();
}

int Step::first_row(int lane) const { return memory_->batch.offsets[lane]; }

}  // namespace tandem
