#include "services/cli/bench_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "services/cli/command.h"
#include "services/cli/machine.h"

namespace tandem::cli {
namespace {

std::string Number(double value, int digits) {
  return std::isfinite(value) ? absl::StrFormat("%.*f", digits, value) : "-";
}

std::string Milliseconds(const std::vector<double>& seconds, double p) {
  return Number(1000 * Percentile(seconds, p), 2);
}

// JSON has no NaN.
nlohmann::json Value(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

std::string AcceptanceText(const DraftCounts& drafts) {
  std::vector<std::string> shares;
  for (const double share : drafts.AcceptanceByDepth()) shares.push_back(Number(100 * share, 0));
  return shares.empty() ? "-" : absl::StrJoin(shares, " ");
}

double Ratio(const LevelResult& level) {
  return level.drafted.TokensPerSecond() / level.plain.TokensPerSecond();
}

std::string SpeedRow(const LevelResult& level, const ModeResult& mode, absl::string_view drafts,
                     absl::string_view ratio) {
  return absl::StrFormat("%7d %6s %8s %8s %8s %5s  %s\n", level.concurrency, drafts,
                         Number(mode.TokensPerSecond(), 1), Milliseconds(mode.per_token, 50),
                         Number(mode.drafts.TokensPerStep(), 2), ratio,
                         AcceptanceText(mode.drafts));
}

std::string LatencyRow(const LevelResult& level, const ModeResult& mode, absl::string_view drafts) {
  return absl::StrFormat("%7d %6s   %8s %8s %8s   %8s %8s %8d\n", level.concurrency, drafts,
                         Milliseconds(mode.first_token, 50), Milliseconds(mode.first_token, 90),
                         Milliseconds(mode.first_token, 99),
                         Milliseconds(mode.message_interval, 50),
                         Milliseconds(mode.message_interval, 99), mode.errors);
}

nlohmann::json Percentiles(const std::vector<double>& values) {
  nlohmann::json json = {{"samples", values.size()}};
  for (const int p : {10, 50, 90, 99}) json[absl::StrCat("p", p)] = Value(Percentile(values, p));
  return json;
}

nlohmann::json ModeJson(const ModeResult& mode) {
  nlohmann::json acceptance = nlohmann::json::array();
  for (const double share : mode.drafts.AcceptanceByDepth()) acceptance.push_back(Value(share));
  return {{"replies", mode.replies},
          {"errors", mode.errors},
          {"first_error", mode.first_error},
          {"tokens", mode.tokens},
          {"wall_seconds", mode.wall},
          {"tokens_per_second", Value(mode.TokensPerSecond())},
          {"seconds_per_token", Percentiles(mode.per_token)},
          {"first_token_seconds", Percentiles(mode.first_token)},
          {"message_interval_seconds", Percentiles(mode.message_interval)},
          {"tokens_per_step", Value(mode.drafts.TokensPerStep())},
          {"drafted_by_depth", mode.drafts.drafted_by_depth},
          {"accepted_by_depth", mode.drafts.accepted_by_depth},
          {"acceptance_by_depth", acceptance}};
}

nlohmann::json ModelJson(const v1::GetModelResponse& model) {
  return {{"name", model.name()},
          {"hash", model.hash()},
          {"parameters", model.parameters()},
          {"weight_format", model.weight_format()},
          {"backend", model.backend()},
          {"drafter_mode", model.drafter().mode()},
          {"drafter_attached", model.drafter().attached()},
          {"sidecar", model.drafter().sidecar()},
          {"draft_schedule", model.drafter().schedule()},
          {"round_trip_seconds", model.drafter().round_trip_seconds()}};
}

nlohmann::json SettingsJson(const LoadOptions& options) {
  nlohmann::json prompts = nlohmann::json::array();
  for (const BenchPrompt& prompt : options.prompts) prompts.push_back(prompt.name);
  nlohmann::json json = {{"prompts", prompts},
                         {"max_tokens", options.max_tokens},
                         {"repeats", options.repeats},
                         {"temperature", options.temperature}};
  if (options.max_drafts) json["max_drafts"] = *options.max_drafts;
  return json;
}

std::string LevelNotes(const BenchReport& report) {
  std::string text;
  for (const LevelResult& level : report.levels) {
    for (const ModeResult* mode : {&level.drafted, &level.plain}) {
      if (mode->errors == 0) continue;
      absl::StrAppend(&text, mode->errors, " errors at ", level.concurrency,
                      " at a time; the first: ", mode->first_error, "\n");
    }
    if (level.different > 0 && !report.simulated) {
      absl::StrAppend(&text, level.different, " replies at ", level.concurrency,
                      " at a time DIFFER with and without drafts\n");
    }
  }
  return text;
}

std::string PrefillText(const BenchReport& report) {
  if (!report.prefill) return "";
  const PrefillResult& prefill = *report.prefill;
  return absl::StrFormat(
      "\nprompt of %d tokens: first token after %.1f ms = %.0f tok/s,\n"
      "  %.1f times decoding without drafts (%.0f tok/s, measured in turns with it)\n",
      prefill.prompt_tokens, 1000 * prefill.first_token, prefill.PrefillRate(),
      prefill.PrefillRate() / prefill.DecodeRate(), prefill.DecodeRate());
}

std::string HopText(const BenchReport& report) {
  if (!report.hop) return "";
  return absl::StrFormat(
      "\nfirst token through the router after %s ms, from the verifier after %s ms\n"
      "  (medians of %d in turns): the router adds %.3f ms\n",
      Milliseconds(report.hop->router, 50), Milliseconds(report.hop->verifier, 50),
      report.hop->samples, 1000 * report.hop->Added());
}

}  // namespace

std::string BenchTable(const BenchReport& report) {
  std::string text = absl::StrFormat(
      "%s on %s, %s\nhand-off to the drafter: %s\n\n", report.model.name(), report.model.backend(),
      DescribeMachine()["processor"].get<std::string>(), report.model.drafter().mode());
  if (!report.synthetic.empty()) absl::StrAppend(&text, report.synthetic, "\n\n");
  absl::StrAppendFormat(&text, "%7s %6s %8s %8s %8s %5s  %s\n", "at once", "drafts", "tok/s",
                        "ms/token", "tok/step", "ratio", "accepted % by depth");
  for (const LevelResult& level : report.levels) {
    absl::StrAppend(&text, SpeedRow(level, level.drafted, "on", Number(Ratio(level), 2)),
                    SpeedRow(level, level.plain, "off", ""));
  }
  absl::StrAppendFormat(&text, "\n%7s %6s   %26s   %17s\n", "", "", "ms to the first token",
                        "between messages");
  absl::StrAppendFormat(&text, "%7s %6s   %8s %8s %8s   %8s %8s %8s\n", "at once", "drafts", "p50",
                        "p90", "p99", "p50", "p99", "errors");
  for (const LevelResult& level : report.levels) {
    absl::StrAppend(&text, LatencyRow(level, level.drafted, "on"),
                    LatencyRow(level, level.plain, "off"));
  }
  absl::StrAppend(&text, LevelNotes(report), PrefillText(report), HopText(report));
  return text;
}

nlohmann::json BenchJson(const BenchReport& report) {
  nlohmann::json json = {
      {"version", std::string(Version())},
      {"date", absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone())},
      {"machine", DescribeMachine()},
      {"model", ModelJson(report.model)},
      {"settings", SettingsJson(report.options)},
      {"levels", nlohmann::json::array()}};
  if (!report.synthetic.empty()) json["synthetic"] = report.synthetic;
  for (const LevelResult& level : report.levels) {
    json["levels"].push_back({{"concurrency", level.concurrency},
                              {"drafted", ModeJson(level.drafted)},
                              {"plain", ModeJson(level.plain)},
                              {"ratio", Value(Ratio(level))},
                              {"different_replies", level.different}});
  }
  if (report.prefill) {
    const PrefillResult& prefill = *report.prefill;
    json["prefill"] = {{"prompt_tokens", prefill.prompt_tokens},
                       {"samples", prefill.samples},
                       {"first_token_seconds", prefill.first_token},
                       {"tokens_per_second", prefill.PrefillRate()},
                       {"plain_decode_tokens_per_second", prefill.DecodeRate()},
                       {"ratio", prefill.PrefillRate() / prefill.DecodeRate()}};
  }
  if (report.hop) {
    json["router"] = {{"first_token_seconds", Percentiles(report.hop->router)},
                      {"verifier_first_token_seconds", Percentiles(report.hop->verifier)},
                      {"added_seconds", report.hop->Added()}};
  }
  return json;
}

}  // namespace tandem::cli
