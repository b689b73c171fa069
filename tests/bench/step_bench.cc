// Times one speculative step against plain decoding: step_bench [model] [threads] [tokens.json].
// The three kinds of work are timed in turn, so that all of them see the same machine.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_file.h"
#include "common/model/batch.h"
#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "common/model/weights.h"
#include "common/model/weights_source.h"
#include "kernels/accept/accept.h"
#include "kernels/backend.h"
#include "tests/bench/bench_model.h"
#include "tests/bench/timed_backend.h"

namespace tandem {
namespace {

constexpr int kDrafts = 3;
constexpr int kRounds = 600;
// A sequence's length when drafting begins, and its rounds: replies of some hundred tokens.
constexpr int kPrompt = 64;
constexpr int kRoundsPerSequence = 60;

using OpTimes = std::map<std::string, std::vector<double>>;

// A base model with a sequence of its own, and its sidecar.
class Bench final {
 public:
  Bench(const std::string& path, int threads, std::vector<int32_t> text)
      : text_(std::move(text)),
        backend_(MakeCpuBackend(threads)),
        weights_(Value(ModelWeights::Load(&backend_, *Value(WeightsSource::Open(path))))),
        model_(weights_.get()),
        config_(model_.config()),
        state_(Value(RecurrentState::Create(&backend_, config_, 1))),
        activations_(
            Value(Activations::Create(&backend_, config_, kMaxDrafts + 1, kMaxDrafts + 1, 1))),
        slot_(Value(state_->Acquire())),
        features_(Take<float>((kMaxDrafts + 1) * 3 * config_.width)),
        counts_(Take<float>(config_.vocab)),
        seen_(Take<uint8_t>(config_.vocab)),
        scratch_(Take<float>(AcceptScratchFloats(config_.vocab))) {
    const std::unique_ptr<MtpFile> sidecar = Value(MtpFile::Open(path + "/mtp",
                                                                 {.name = weights_->name(),
                                                                  .layers = config_.layers,
                                                                  .width = config_.width,
                                                                  .vocab = config_.vocab},
                                                                 /*force=*/false));
    taps_ = sidecar->config().fuse_layers;
    drafter_ = Value(Mtp::Create(&backend_, *sidecar,
                                 {.vocab = config_.vocab,
                                  .embedding = weights_->embedding(),
                                  .head = weights_->head(),
                                  .slots = 1,
                                  .max_lanes = 1}));
  }

  // A pass of one certain token and `drafts` drafts, and the choices at all its rows.
  void Step(int drafts) {
    DecodeBatch batch;
    batch.Clear();
    const std::vector<int32_t> tokens = Next(1 + drafts);
    const absl::Span<const int32_t> all = tokens;
    batch.AddLane(slot_.index(), all.first(1), all.subspan(1), true);
    model_.Forward(batch, *state_, *activations_,
                   {.taps = {taps_[0], taps_[1]}, .rows = features_.data});
    Accept(1 + drafts);
    backend_.Wait();
    state_->SetAccepted(slot_, drafts);
  }

  // The drafter begins a new sequence.
  void StartSequence() {
    ++generation_;
    position_ = 0;
    for (int i = 0; i < kPrompt; ++i) Draft(1, 0);
  }

  // `certain` positions fed and a chain of `wanted`.
  void Draft(int certain, int wanted) {
    // Tokens of its own, so that the base model's text stays whole.
    const int32_t* const tokens = text_.data() + static_cast<size_t>(position_) % kPrompt;
    const DraftLane lane = {.slot = 0,
                            .generation = generation_,
                            .count = certain,
                            .wanted = wanted,
                            .position = position_,
                            .features = features_.data,
                            .next_tokens = tokens};
    Drafts drafts;
    drafter_->Draft({&lane, 1}, {&drafts, 1});
    CHECK_EQ(drafts.count, wanted);
    position_ += certain;
  }

  void Collect(OpTimes* ops) {
    for (const auto& [op, milliseconds] : backend_.Totals()) (*ops)[op].push_back(milliseconds);
  }
  int threads() const { return backend_.threads(); }

 private:
  template <class T>
  View<T> Take(size_t count) {
    return {static_cast<T*>(backend_.Allocate(count * sizeof(T))), count};
  }

  std::vector<int32_t> Next(int count) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(text_[next_++ % text_.size()]);
    return tokens;
  }

  void Accept(int rows) {
    const AcceptLane lane = {.rows = rows, .sampling = {.temperature = 0.0f}};
    int32_t emitted = 0;
    int32_t tokens[kMaxDrafts + 1], top_ids[(kMaxDrafts + 1) * kMaxTopLogprobs];
    float logprobs[kMaxDrafts + 1], top_values[(kMaxDrafts + 1) * kMaxTopLogprobs];
    backend_.Accept({.vocab = config_.vocab,
                     .usable_vocab = config_.vocab,
                     .logits = activations_->logits(),
                     .row_tokens = activations_->row_tokens(),
                     .lanes = {&lane, 1},
                     .counts = counts_,
                     .seen = seen_,
                     .accepted = {state_->accepted(), 1},
                     .emitted = {&emitted, 1},
                     .tokens = {tokens, kMaxDrafts + 1},
                     .logprobs = {logprobs, kMaxDrafts + 1},
                     .top_ids = {top_ids, (kMaxDrafts + 1) * kMaxTopLogprobs},
                     .top_values = {top_values, (kMaxDrafts + 1) * kMaxTopLogprobs},
                     .scratch = scratch_});
  }

  std::vector<int32_t> text_;
  size_t next_ = 0;
  uint32_t generation_ = 0;
  int64_t position_ = 0;
  TimedBackend backend_;
  std::unique_ptr<ModelWeights> weights_;
  Rwkv7 model_;
  const ModelConfig& config_;
  std::unique_ptr<RecurrentState> state_;
  std::unique_ptr<Activations> activations_;
  Slot slot_;
  View<float> features_;  // [kMaxDrafts + 1, 3C]
  View<float> counts_;    // [1, V]
  View<uint8_t> seen_;    // [1, V]
  View<float> scratch_;   // [1, AcceptScratchFloats(V)]
  std::array<int, 2> taps_ = {};
  std::unique_ptr<Mtp> drafter_;
};

void Print(const char* what, const Times& times, const OpTimes& ops) {
  std::printf("%-8s median %7.3f ms, p10 %7.3f ms\n", what, times.median(), times.p10());
  for (const auto& [op, values] : ops)
    std::printf("    %-16s %8.4f ms\n", op.c_str(), Percentile(values, 10));
}

void Main(const std::string& path, int threads, const std::string& text) {
  Bench bench(path, threads, ReadText(text));
  Times plain, verify, draft;
  OpTimes ignored, plain_ops, verify_ops, draft_ops;
  for (int round = 0; round < kRounds; ++round) {
    if (round % kRoundsPerSequence == 0) bench.StartSequence();
    // Two plain steps: the first one brings the base model's weights back into the caches.
    bench.Step(0);
    bench.Collect(&ignored);
    plain.Measure([&] { bench.Step(0); });
    bench.Collect(&plain_ops);
    verify.Measure([&] { bench.Step(kDrafts); });
    bench.Collect(&verify_ops);
    draft.Measure([&] { bench.Draft(kDrafts, kDrafts); });
    bench.Collect(&draft_ops);
  }
  std::printf("%s, %d threads, %d drafts; ops from p10\n", path.c_str(), bench.threads(), kDrafts);
  Print("plain", plain, plain_ops);
  Print("verify", verify, verify_ops);
  Print("draft", draft, draft_ops);
  std::printf("verify / plain: %.2f (median), %.2f (p10)\n", verify.median() / plain.median(),
              verify.p10() / plain.p10());
  std::printf("(verify + draft) / plain: %.2f (median), %.2f (p10)\n",
              (verify.median() + draft.median()) / plain.median(),
              (verify.p10() + draft.p10()) / plain.p10());
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::Main(argc > 1 ? argv[1] : "deploy/demo-model", argc > 2 ? std::atoi(argv[2]) : 0,
               argc > 3 ? argv[3] : "deploy/demo-model/golden/golden.json");
  return 0;
}
