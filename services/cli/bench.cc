#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/model/weight_format.h"
#include "services/cli/bench_load.h"
#include "services/cli/bench_plan.h"
#include "services/cli/bench_report.h"
#include "services/cli/command.h"
#include "services/cli/group_process.h"
#include "services/cli/option_values.h"
#include "services/cli/progress.h"
#include "services/cli/request_options.h"
#include "services/cli/terminal.h"

namespace tandem::cli {
namespace {

// Many streams share few connections; a server limits streams per connection.
constexpr int kStreamsPerConnection = 16;
constexpr absl::Duration kConnectLimit = absl::Seconds(10);
constexpr absl::Duration kAttachLimit = absl::Seconds(30);

struct BenchOptions {
  std::string address = kDefaultAddress;
  std::string model, verifier, prompts, json;
  std::string synthetic, draft = "mtp", weights, draft_weights, zeros, simulated;
  std::vector<std::string> up_flags;
  std::string concurrency = "1,4";
  int warm_up = 1;
  int prefill = 0;
  int prefill_samples = 9;
  int hop_samples = 200;
  LoadOptions load;
};

std::vector<std::unique_ptr<Client>> MakeClients(const std::string& address, int concurrency) {
  std::vector<std::unique_ptr<Client>> clients;
  const int count = (concurrency + kStreamsPerConnection - 1) / kStreamsPerConnection;
  for (int i = 0; i < count; ++i) clients.push_back(std::make_unique<Client>(address, true));
  return clients;
}

// A drafter that has just been started attaches a little later; without one there is nothing to
// wait for.
absl::StatusOr<v1::GetModelResponse> WaitForDrafter(const Client& client, bool expected) {
  const absl::Time deadline = absl::Now() + kAttachLimit;
  for (;;) {
    ASSIGN_OR_RETURN(v1::GetModelResponse model, client.GetModel());
    if (model.drafter().attached() || !expected || absl::Now() > deadline) return model;
    absl::SleepFor(absl::Milliseconds(50));
  }
}

// By the names that verifiers give such models.
void NoteSynthetic(BenchReport& report) {
  const std::string& model = report.model.name();
  if (!absl::StartsWith(model, "synthetic-")) return;
  report.simulated = absl::StrContains(model, "-simulated-");
  report.synthetic = absl::StrCat("synthetic weights: the text is noise",
                                  report.simulated ? "; simulated acceptance" : "");
}

// For `tandem up`.
std::vector<std::string> UpFlags(const BenchOptions& options) {
  std::vector<std::string> flags;
  const auto add = [&flags](absl::string_view flag, const std::string& value) {
    if (!value.empty()) flags.push_back(absl::StrCat(flag, value));
  };
  add("--weights=", options.weights);
  add("--draft-weights=", options.draft_weights);
  add("--verifier-flag=--synthetic-zeros=", options.zeros);
  add("--verifier-flag=--simulate-accepted=", options.simulated);
  if (!options.synthetic.empty() && options.draft == "off") flags.push_back("--mtp-path=off");
  flags.insert(flags.end(), options.up_flags.begin(), options.up_flags.end());
  return flags;
}

absl::Status RunLoad(const std::string& address, const std::string& verifier,
                     const std::vector<int>& levels, const BenchOptions& options,
                     BenchReport& report) {
  const Client client(address);
  RETURN_IF_ERROR(client.WaitForConnection(kConnectLimit));
  // Before anything is measured.
  std::optional<Client> direct;
  if (!verifier.empty() && options.hop_samples > 0) {
    direct.emplace(verifier);
    if (!direct->WaitForConnection(kConnectLimit).ok()) {
      return absl::UnavailableError(absl::StrCat(
          "nothing answers at ", verifier, "; --verifier is the address that the verifier serves"));
    }
  }
  const bool starts_drafter =
      !options.model.empty() || (!options.synthetic.empty() && options.draft != "off");
  ASSIGN_OR_RETURN(report.model, WaitForDrafter(client, starts_drafter));
  NoteSynthetic(report);
  for (const int level : levels) {
    const auto clients = MakeClients(address, level);
    LoadOptions warm_up = report.options;
    warm_up.repeats = options.warm_up;
    warm_up.on_progress = [&report](const std::string& text) {
      report.options.on_progress(absl::StrCat("warm-up, ", text));
    };
    if (options.warm_up > 0) RunLevel(clients, warm_up, level);
    report.levels.push_back(RunLevel(clients, report.options, level));
  }
  if (options.prefill > 0) {
    ASSIGN_OR_RETURN(report.prefill,
                     RunPrefill(client, report.options, options.prefill, options.prefill_samples));
  }
  if (direct) {
    ASSIGN_OR_RETURN(report.hop, RunHop(client, *direct, report.options, options.hop_samples));
  }
  return absl::OkStatus();
}

// Failed replies are in the table; a script also wants to know.
absl::Status CheckReplies(const BenchReport& report) {
  int errors = 0, different = 0;
  for (const LevelResult& level : report.levels) {
    errors += level.drafted.errors + level.plain.errors;
    if (!report.simulated) different += level.different;
  }
  if (errors == 0 && different == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(errors, " replies failed and ", different,
                                         " differed with and without drafts; see the table"));
}

absl::Status RunBench(const BenchOptions& options) {
  BenchReport report{.options = options.load};
  Progress progress(STDERR_FILENO);
  report.options.on_progress = [&progress](const std::string& text) { progress.Show(text); };
  report.options.prompts = BuiltInPrompts();
  if (!options.prompts.empty()) {
    auto prompts = ReadPrompts(options.prompts);
    if (!prompts.ok()) return AsUsageError(prompts.status());
    report.options.prompts = *std::move(prompts);
  }
  ASSIGN_OR_RETURN(const std::vector<int> levels, ParseConcurrency(options.concurrency));
  std::unique_ptr<GroupProcess> group;
  if (const std::string model =
          options.synthetic.empty() ? options.model : absl::StrCat("synthetic:", options.synthetic);
      !model.empty()) {
    progress.Show("starting a group");
    ASSIGN_OR_RETURN(group, GroupProcess::Start(model, UpFlags(options)));
  }
  const std::string address = group ? group->address() : options.address;
  const std::string verifier =
      group && options.verifier.empty() ? group->verifier() : options.verifier;
  const absl::Status status = RunLoad(address, verifier, levels, options, report);
  progress.End();
  // What was measured before an error is shown all the same.
  if (!report.levels.empty()) WriteAll(STDOUT_FILENO, BenchTable(report));
  RETURN_IF_ERROR(status);
  if (!options.json.empty()) {
    const std::string text =
        BenchJson(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    RETURN_IF_ERROR(WriteFileAtomically(options.json, text));
  }
  return CheckReplies(report);
}

void AddLoadOptions(CLI::App& app, BenchOptions& options) {
  app.add_option("--prompts", options.prompts,
                 "File with one prompt per line, as text or as JSON with \"prompt\" and \"name\"");
  app.add_option("--concurrency", options.concurrency, "Replies at a time, as 1,4,16")
      ->transform(Utf8Text())
      ->capture_default_str();
  AddCountOption(app, "-n,--max-tokens", options.load.max_tokens, 2, 1 << 20,
                 "Tokens of every reply");
  AddCountOption(app, "--repeat", options.load.repeats, 1, 1'000'000,
                 "How often every prompt is asked");
  AddCountOption(app, "--warm-up", options.warm_up, 0, 1'000'000,
                 "How often before the clock counts");
  app.add_option("--temperature", options.load.temperature, "0 to 100; 0 is greedy")
      ->transform(RealNumber({.high = 100}))
      ->capture_default_str();
  AddMaxDraftsOption(app, options.load.max_drafts);
}

void AddPrefillOptions(CLI::App& app, BenchOptions& options) {
  CLI::Option* prefill =
      app.add_option("--prefill", options.prefill,
                     "Also measure a prompt of so many tokens against decoding without drafts")
          ->transform(WholeNumber(1, 1 << 20));
  AddCountOption(app, "--prefill-samples", options.prefill_samples, 1, 100'000, "How often")
      ->needs(prefill);
}

CLI::Option* AddSyntheticOptions(CLI::App& app, BenchOptions& options) {
  CLI::Option* synthetic =
      app.add_option("--synthetic", options.synthetic,
                     "Start a group with random weights of this size, made on the device: 2.9b, "
                     "7.2b, 13.3b or tiny")
          ->check(CLI::IsMember({"2.9b", "7.2b", "13.3b", "tiny"}));
  const auto format = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)
        ->check(CLI::IsMember(WeightFormatNames(AllWeightFormats())))
        ->needs(synthetic);
  };
  format("--weights", options.weights, "Format of its large matrices");
  format("--draft-weights", options.draft_weights, "Format of its sidecar's matrices");
  app.add_option("--draft", options.draft, "Its sidecar: mtp or off")
      ->check(CLI::IsMember({"mtp", "off"}))
      ->needs(synthetic);
  app.add_option("--synthetic-zeros", options.zeros,
                 "Share of a token's channel-mix activations that are zero (0.9)")
      ->transform(RealNumber({.high = 1, .below_high = true}))
      ->needs(synthetic);
  app.add_option("--simulate-accepted", options.simulated,
                 "Keep so many drafts per step on average, whatever the weights choose")
      ->transform(RealNumber({.high = 8}))
      ->needs(synthetic);
  return synthetic;
}

}  // namespace

Command MakeBenchCommand(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("bench", "Measure speed with and without drafts, in turns, in one run");
  auto options = std::make_shared<BenchOptions>();
  CLI::Option* address = AddAddressOption(*app, options->address);
  CLI::Option* model =
      app->add_option("--model", options->model, "Start a group for this model instead")
          ->excludes(address);
  CLI::Option* synthetic = AddSyntheticOptions(*app, *options);
  synthetic->excludes(address)->excludes(model);
  CLI::Option* up_flag = app->add_option("--up-flag", options->up_flags,
                                         "With --model or --synthetic: one more flag for tandem up")
                             ->allow_extra_args(false);
  app->parse_complete_callback([=] {
    if (up_flag->count() > 0 && model->count() == 0 && synthetic->count() == 0)
      throw CLI::RequiresError("--up-flag", "--model or --synthetic");
  });
  AddLoadOptions(*app, *options);
  AddPrefillOptions(*app, *options);
  app->add_option("--verifier", options->verifier,
                  "Also measure what the router adds to the first token, against this verifier; "
                  "known with --model")
      ->transform(Utf8Text());
  AddCountOption(*app, "--router-samples", options->hop_samples, 0, 1'000'000,
                 "How often that is measured; 0: not");
  app->add_option("--json", options->json, "Also write the results to this file");
  return {.app = app, .run = [options] { return RunBench(*options); }};
}

}  // namespace tandem::cli
