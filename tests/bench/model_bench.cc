// Times the base model on the CPU: model_bench [model] [threads] [tokens.json].

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/model/batch.h"
#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "common/model/weights.h"
#include "common/model/weights_source.h"
#include "kernels/backend.h"
#include "tests/bench/bench_model.h"
#include "tests/bench/timed_backend.h"

namespace tandem {
namespace {

constexpr int kMaxRows = 1024;

class Bench final {
 public:
  Bench(const std::string& path, int threads, std::vector<int32_t> text)
      : text_(std::move(text)),
        backend_(MakeCpuBackend(threads)),
        weights_(Value(ModelWeights::Load(&backend_, *Value(WeightsSource::Open(path))))),
        model_(weights_.get()),
        state_(Value(RecurrentState::Create(&backend_, model_.config(), 1))),
        activations_(Value(Activations::Create(&backend_, model_.config(), kMaxRows, 16, 1))),
        slot_(Value(state_->Acquire())) {}

  // Times of passes of `certain` and `drafts` tokens, all drafts accepted, and of each op inside
  // one.
  Times Time(int certain, int drafts, int passes, std::map<std::string, double>* ops) {
    DecodeBatch batch;
    Times times;
    std::map<std::string, std::vector<double>> op_times;
    for (int pass = 0; pass < passes; ++pass) {
      batch.Clear();
      const std::vector<int32_t> tokens = NextTokens(certain + drafts);
      const absl::Span<const int32_t> all = tokens;
      batch.AddLane(slot_.index(), all.first(certain), all.subspan(certain), true);
      times.Measure([&] {
        model_.Forward(batch, *state_, *activations_, {});
        backend_.Wait();
      });
      state_->SetAccepted(slot_, drafts);
      for (const auto& [op, milliseconds] : backend_.Totals()) op_times[op].push_back(milliseconds);
    }
    for (const auto& [op, values] : op_times) (*ops)[op] = Percentile(values, 10);
    return times;
  }

  int threads() const { return backend_.threads(); }

 private:
  std::vector<int32_t> NextTokens(int count) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(text_[next_++ % text_.size()]);
    return tokens;
  }

  std::vector<int32_t> text_;
  size_t next_ = 0;
  TimedBackend backend_;
  std::unique_ptr<ModelWeights> weights_;
  Rwkv7 model_;
  std::unique_ptr<RecurrentState> state_;
  std::unique_ptr<Activations> activations_;
  Slot slot_;
};

void Print(const char* what, int rows, const Times& times, const Times& decode,
           const std::map<std::string, double>& ops) {
  std::printf(
      "%-8s %5d rows: median %8.3f ms, p10 %8.3f ms, %7.0f rows/s, %5.2fx decode, per row "
      "1/%4.1f\n",
      what, rows, times.median(), times.p10(), rows / times.p10() * 1e3, times.p10() / decode.p10(),
      decode.p10() * rows / times.p10());
  for (const auto& [op, value] : ops) std::printf("    %-16s %8.4f ms\n", op.c_str(), value);
}

void Main(const std::string& path, int threads, const std::string& text) {
  Bench bench(path, threads, ReadText(text));
  std::printf("%s, %d threads; rates, ratios and ops from p10\n", path.c_str(), bench.threads());
  Times decode;
  for (const int rows : {1, 2, 4, 9}) {
    std::map<std::string, double> ops;
    const Times times = bench.Time(1, rows - 1, 400, &ops);
    if (rows == 1) decode = times;
    Print(rows == 1 ? "decode" : "verify", rows, times, decode, ops);
  }
  for (const int rows : {64, 256, 1024}) {
    std::map<std::string, double> ops;
    const Times times = bench.Time(rows, 0, 25600 / rows, &ops);
    Print("prefill", rows, times, decode, ops);
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::Main(argc > 1 ? argv[1] : "deploy/demo-model", argc > 2 ? std::atoi(argv[2]) : 0,
               argc > 3 ? argv[3] : "deploy/demo-model/golden/golden.json");
  return 0;
}
