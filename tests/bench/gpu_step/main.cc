// Times whole steps of a synthetic model of real size as the engine runs them: plain decoding,
// verification, draft rounds, prefill and batches. All of it in one process: hand-offs between
// verifier and drafter are not in it. Kinds of step are timed in turn, so that all of them see the
// same machine.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/flags.h"
#include "common/model/weight_format.h"
#include "kernels/backend_cuda.h"
#include "tests/bench/gpu_step/bytes_moved.h"
#include "tests/bench/gpu_step/step_engine.h"
#include "tests/bench/gpu_step/step_report.h"
#include "tests/bench/read_rate.h"

ABSL_FLAG(std::string, backend, "cuda", "cpu or cuda");
ABSL_FLAG(int, device, 0, "CUDA device");
ABSL_FLAG(int, threads, 0, "of the cpu backend; 0: one per core");
ABSL_FLAG(std::string, synthetic, "7.2b", "2.9b, 7.2b, 13.3b or tiny");
ABSL_FLAG(std::string, weights, "fp8", "format of the six big matrices: bf16, fp8, int8 or int6");
ABSL_FLAG(std::string, activations, "exact", "inputs of these matrices: exact, or fp8 as well");
ABSL_FLAG(bool, batch_invariant, true, "false: passes of more than 64 rows through cuBLASLt");
ABSL_FLAG(std::string, draft_weights, "fp8", "the same of the sidecar's matrices");
ABSL_FLAG(double, zero_share, 0.90, "of a token's relu^2 activations");
ABSL_FLAG(std::vector<std::string>, rows, (std::vector<std::string>{"1", "2", "4", "8", "64"}),
          "rows of one sequence's pass: 1 is plain, up to 9 verify drafts, more are a prompt");
ABSL_FLAG(std::vector<std::string>, batch, (std::vector<std::string>{"8", "32", "64", "256"}),
          "sequences that decode together");
ABSL_FLAG(int, drafts, 3, "of a draft round");
ABSL_FLAG(int, prefill, 1024, "tokens of a prompt; 0: none");
ABSL_FLAG(int, steps, 200, "of each kind; a tenth of it for prefill and batches");
ABSL_FLAG(bool, ops, false, "also each op's time, found by running it alone, over all layers");
ABSL_FLAG(std::string, json, "", "file that JSON lines are appended to");

namespace tandem {
namespace {

constexpr int kWarmUp = 5;
// A round feeds what a step made certain on average, rounded.
constexpr int kCertainPerRound = 2;
constexpr double kTokensPerStep = 2.1;
constexpr double kDraftLive = 0.15;  // of the synthetic sidecar, by construction

struct Work {
  StepRow row;
  StepShape shape;
  std::vector<OpBytes> ops;
};

WeightFormat FormatOf(absl::string_view flag, const std::string& name) {
  const auto format = ParseWeightFormat(flag, name, AllWeightFormats());
  CHECK_OK(format.status());
  return *format;
}

std::vector<int> Numbers(const std::vector<std::string>& texts) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    int number = 0;
    if (text.empty()) continue;
    CHECK(absl::SimpleAtoi(text, &number) && number > 0) << "not a count: " << text;
    numbers.push_back(number);
  }
  return numbers;
}

Work WorkOf(const std::string& what, const StepShape& shape) {
  Work work = {.shape = shape};
  work.row.what = what;
  work.row.rows = shape.rows();
  work.row.lanes = shape.lanes;
  work.row.tokens = shape.lanes * shape.certain;
  return work;
}

Work WorkOfRows(int rows) {
  if (rows == 1) return WorkOf("plain", {});
  if (rows <= kMaxDrafts + 1) return WorkOf(absl::StrCat("verify ", rows), {.drafts = rows - 1});
  return WorkOf(absl::StrCat("prompt ", rows), {.certain = rows});
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

struct Machine {
  std::unique_ptr<Backend> backend;
  std::string card;
};

Machine Start() {
  if (absl::GetFlag(FLAGS_backend) == "cpu")
    return {.backend = MakeCpuBackend(absl::GetFlag(FLAGS_threads)), .card = "cpu"};
  CudaStart start = MakeCudaBackend({.device = absl::GetFlag(FLAGS_device),
                                     .batch_invariant = absl::GetFlag(FLAGS_batch_invariant)});
  if (start.backend == nullptr) {
    std::fprintf(stderr, "gpu_step_bench: %s\n", start.refused.c_str());
    std::exit(1);
  }
  return {.backend = std::move(start.backend), .card = start.device.name};
}

SyntheticModel Model() {
  SyntheticModel model = Value(SyntheticOfSize(absl::GetFlag(FLAGS_synthetic)));
  model.format = FormatOf("weights", absl::GetFlag(FLAGS_weights));
  model.rounded_inputs = Value(ParseActivations("activations", absl::GetFlag(FLAGS_activations)));
  CHECK(!model.rounded_inputs || model.format == WeightFormat::kFp8)
      << "--activations=fp8 needs --weights=fp8";
  model.zero_share = absl::GetFlag(FLAGS_zero_share);
  return model;
}

nlohmann::json Common(const std::string& card, const std::string& command) {
  return {{"synthetic", true},
          {"model", absl::StrCat("synthetic ", absl::GetFlag(FLAGS_synthetic))},
          {"weights", absl::GetFlag(FLAGS_weights)},
          {"activations", absl::GetFlag(FLAGS_activations)},
          {"batch_invariant", absl::GetFlag(FLAGS_batch_invariant)},
          {"draft_weights", absl::GetFlag(FLAGS_draft_weights)},
          {"zero_share", absl::GetFlag(FLAGS_zero_share)},
          {"card", card},
          {"driver", FirstLine("/proc/driver/nvidia/version")},
          {"commit", FirstLine("COMMIT")},
          {"date", absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone())},
          {"command", command}};
}

void RunOnce(StepEngine& engine, const StepShape& shape) {
  engine.Prepare(shape);
  engine.Run();
  engine.Keep();
}

void Time(StepEngine& engine, Work& work) {
  engine.Prepare(work.shape);
  work.row.times.Measure([&] { engine.Run(); });
  engine.Keep();
}

// The live share, and from it the bytes.
void Weigh(StepEngine& engine, const SyntheticModel& model, Work& work) {
  engine.backend().set_measure(TimedBackend::Measure::kLive);
  for (int i = 0; i < (work.shape.rows() > 16 ? 1 : 4); ++i) RunOnce(engine, work.shape);
  engine.backend().set_measure(TimedBackend::Measure::kNothing);
  work.row.live = engine.backend().Live().share();
  work.ops = StepBytes(model.config, model.format, work.row.lanes, work.row.live);
  work.row.bytes = SumOf(work.ops);
}

// A row per op of a step or round, which `run` is: the op alone, in the order of the layers so that
// its weights are cold, once and several times over. What else a run costs is in both.
void ReportOps(StepEngine& engine, StepReport& report, const std::string& what,
               const std::vector<OpBytes>& ops, const std::function<void()>& run) {
  constexpr int kRepeats = 5, kRuns = 15;
  double sum = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    Times once, often;
    // Leaves inputs of the right kind for the op.
    engine.backend().set_measure(TimedBackend::Measure::kNothing);
    run();
    for (int n = 0; n < kRuns; ++n) {
      for (const int repeats : {1, kRepeats}) {
        engine.backend().MeasureOne(ops[i].op, static_cast<int>(i) + 1, repeats);
        if (n == 0) run();
        (repeats == 1 ? once : often).Measure(run);
      }
    }
    const double milliseconds = (often.median() - once.median()) / (kRepeats - 1);
    report.AddOp(what, ops[i], milliseconds);
    sum += milliseconds;
  }
  engine.backend().set_measure(TimedBackend::Measure::kNothing);
  report.AddRatio(what + ", sum of its ops, ms", sum);
}

// One sequence: passes of all row counts and draft rounds, in turn.
void BenchSteps(StepEngine& engine, const SyntheticModel& model, StepReport& report) {
  const int drafts = absl::GetFlag(FLAGS_drafts);
  std::vector<Work> works;
  for (const int rows : Numbers(absl::GetFlag(FLAGS_rows))) works.push_back(WorkOfRows(rows));
  StepRow draft = {.what = absl::StrCat("draft ", drafts), .rows = drafts, .tokens = drafts};
  draft.live = kDraftLive;
  const std::vector<OpBytes> draft_ops =
      DraftBytes(model.config, FormatOf("draft-weights", absl::GetFlag(FLAGS_draft_weights)),
                 drafts, kDraftLive);
  draft.bytes = SumOf(draft_ops);
  for (Work& work : works) Weigh(engine, model, work);
  engine.StartDrafting();
  for (int i = 0; i < kWarmUp; ++i) {
    for (const Work& work : works) RunOnce(engine, work.shape);
    engine.Draft(kCertainPerRound, drafts);
  }
  for (int i = 0; i < absl::GetFlag(FLAGS_steps); ++i) {
    for (Work& work : works) Time(engine, work);
    draft.times.Measure([&] { engine.Draft(kCertainPerRound, drafts); });
  }
  report.AddHash("features", engine.FeatureHash());
  const Work* plain = nullptr;
  for (const Work& work : works) {
    report.Add(work.row);
    if (work.row.what == "plain") plain = &work;
  }
  report.Add(draft);
  for (const Work& work : works) {
    if (work.shape.drafts == 0 || plain == nullptr) continue;
    report.AddRatio(work.row.what + " / plain",
                    work.row.times.median() / plain->row.times.median());
    if (work.shape.drafts != drafts) continue;
    const double step = work.row.times.median() + draft.times.median();
    report.AddRatio(absl::StrCat(work.row.what, " + ", draft.what, ", ms"), step);
    report.AddRatio(absl::StrCat("tok/s of that at ", kTokensPerStep, " tokens per step"),
                    kTokensPerStep / step * 1e3);
  }
  if (!absl::GetFlag(FLAGS_ops)) return;
  for (const Work& work : works)
    ReportOps(engine, report, work.row.what, work.ops, [&] { RunOnce(engine, work.shape); });
  ReportOps(engine, report, draft.what, draft_ops, [&] { engine.Draft(kCertainPerRound, drafts); });
}

void BenchOne(StepEngine& engine, const SyntheticModel& model, StepReport& report, Work work) {
  Weigh(engine, model, work);
  for (int i = 0; i < kWarmUp; ++i) RunOnce(engine, work.shape);
  for (int i = 0; i < std::max(absl::GetFlag(FLAGS_steps) / 10, 3); ++i) Time(engine, work);
  report.Add(work.row);
  if (absl::GetFlag(FLAGS_ops))
    ReportOps(engine, report, work.row.what, work.ops, [&] { RunOnce(engine, work.shape); });
}

void Main(const std::string& command) {
  const SyntheticModel model = Model();
  const int prefill = absl::GetFlag(FLAGS_prefill);
  const std::vector<int> batches = Numbers(absl::GetFlag(FLAGS_batch));
  int max_rows = std::max(prefill, kMaxDrafts + 1), max_lanes = 1;
  for (const int rows : Numbers(absl::GetFlag(FLAGS_rows))) max_rows = std::max(max_rows, rows);
  for (const int lanes : batches) max_lanes = std::max(max_lanes, lanes);
  max_rows = std::max(max_rows, max_lanes);

  const bool on_gpu = absl::GetFlag(FLAGS_backend) != "cpu";
  const double read_rate = on_gpu ? MeasureReadRate(absl::GetFlag(FLAGS_device)) : 0;
  Machine machine = Start();
  std::printf("%s: %s, weights %s, draft weights %s, zero share %.3f, temperature 1\n",
              machine.card.c_str(), model.name.c_str(), absl::GetFlag(FLAGS_weights).c_str(),
              absl::GetFlag(FLAGS_draft_weights).c_str(), model.zero_share);
  const absl::Time begin = absl::Now();
  StepEngine engine(std::move(machine.backend), model,
                    FormatOf("draft-weights", absl::GetFlag(FLAGS_draft_weights)), max_rows,
                    max_lanes);
  engine.backend().Wait();
  std::printf("made in %s\n", absl::FormatDuration(absl::Now() - begin).c_str());
  StepReport report(absl::StrCat(model.name, " ", absl::GetFlag(FLAGS_weights),
                                 model.rounded_inputs ? " W8A8" : "",
                                 absl::GetFlag(FLAGS_batch_invariant) ? "" : " cuBLASLt"),
                    Common(machine.card, command), absl::GetFlag(FLAGS_json), read_rate);
  if (read_rate > 0) std::printf("reads at most %.0f GB/s\n", read_rate / 1e9);
  BenchSteps(engine, model, report);
  if (prefill > 0) {
    BenchOne(engine, model, report,
             WorkOf(absl::StrCat("prefill ", prefill), {.certain = prefill}));
  }
  for (const int lanes : batches)
    BenchOne(engine, model, report, WorkOf(absl::StrCat("batch ", lanes), {.lanes = lanes}));
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a run that is cut off shows what it had
  const std::string command = absl::StrJoin(argv, argv + argc, " ");
  tandem::ParseServiceFlags(argc, argv, "gpu_step_bench",
                            "Times steps of a synthetic model of real size.");
  tandem::Main(command);
  return 0;
}
