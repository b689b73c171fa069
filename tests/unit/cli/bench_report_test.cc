#include "services/cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"

namespace tandem::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

BenchReport MakeReport() {
  BenchReport report;
  report.model.set_name("tiny");
  report.model.set_backend("cpu");
  report.model.mutable_drafter()->set_mode("host");
  report.options.prompts = {{.name = "p", .text = "x"}};
  LevelResult level{.concurrency = 4};
  level.drafted.replies = 2;
  level.drafted.tokens = 300;
  level.drafted.wall = 2;
  level.drafted.first_token = {0.010, 0.020};
  level.drafted.message_interval = {0.001, 0.002, 0.003};
  level.drafted.per_token = {0.004};
  level.drafted.drafts = {.generated = 300,
                          .rounds = 120,
                          .drafted = 200,
                          .accepted = 90,
                          .drafted_by_depth = {120, 80},
                          .accepted_by_depth = {60, 30}};
  level.plain.replies = 2;
  level.plain.tokens = 200;
  level.plain.wall = 2;
  level.plain.drafts = {.generated = 200, .rounds = 200};
  report.levels.push_back(level);
  return report;
}

TEST(BenchReportTest, TheTableHoldsTheHandComputedNumbers) {
  // 300 / 2 s, 4 ms per token, first token p50 15 p90 19 p99 19.9, gaps p50 2 p99 2.98, 300 / 120
  // tokens per step, 60 / 120 and 30 / 80 accepted, (300 / 2) / (200 / 2).
  const std::string table = BenchTable(MakeReport());
  EXPECT_THAT(table, ContainsRegex("4 +on +150.0 +4.00 +2.50 +1.50 +50 38\n"));
  EXPECT_THAT(table, ContainsRegex("4 +off +100.0 +- +1.00 +-\n"));
  EXPECT_THAT(table, ContainsRegex("4 +on +15.00 +19.00 +19.90 +2.00 +2.98 +0\n"));
  EXPECT_THAT(table, ContainsRegex("4 +off +- +- +- +- +- +0\n"));
  EXPECT_THAT(table, Not(HasSubstr("DIFFER")));
}

TEST(BenchReportTest, FitsATerminalOf80Columns) {
  BenchReport report = MakeReport();
  LevelResult& level = report.levels[0];
  level.concurrency = 1024;
  level.drafted.tokens = 1999999;
  level.plain.tokens = 1999999;
  level.drafted.errors = 99999;
  level.drafted.first_token = level.drafted.message_interval = {99.99};
  level.drafted.drafts.drafted_by_depth = level.drafted.drafts.accepted_by_depth =
      std::vector<uint64_t>(8, 100);
  report.prefill = PrefillResult{
      .prompt_tokens = 65536, .samples = 9, .first_token = 4.7456, .decode_per_token = 0.00045};
  report.hop = HopResult{.samples = 1000, .router = {0.01217}, .verifier = {0.01175}};
  const std::string table = BenchTable(report);
  for (const auto& line : absl::StrSplit(table.substr(table.find('\n')), '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(BenchReportTest, ThePromptIsComparedWithPlainDecoding) {
  BenchReport report = MakeReport();
  report.prefill = PrefillResult{
      .prompt_tokens = 1000, .samples = 3, .first_token = 0.5, .decode_per_token = 0.004};
  EXPECT_THAT(BenchTable(report), HasSubstr("8.0 times decoding without drafts (250 tok/s"));
  EXPECT_EQ(BenchJson(report)["prefill"]["plain_decode_tokens_per_second"], 250);
}

TEST(BenchReportTest, ErrorsAndDifferencesAreNotHidden) {
  BenchReport report = MakeReport();
  report.levels[0].plain.errors = 3;
  report.levels[0].plain.first_error = "queue full";
  report.levels[0].different = 1;
  const std::string table = BenchTable(report);
  EXPECT_THAT(table, HasSubstr("3 errors at 4 at a time; the first: queue full"));
  EXPECT_THAT(table, HasSubstr("1 replies at 4 at a time DIFFER"));
}

TEST(BenchReportTest, JsonHasTheSameNumbersAndNullForWhatIsMissing) {
  BenchReport report = MakeReport();
  report.prefill = PrefillResult{
      .prompt_tokens = 1000, .samples = 3, .first_token = 0.5, .decode_per_token = 0.004};
  report.hop = HopResult{.samples = 1, .router = {0.003, 0.005}, .verifier = {0.002, 0.003}};
  const nlohmann::json json = BenchJson(report);
  const nlohmann::json& level = json["levels"][0];
  EXPECT_EQ(level["concurrency"], 4);
  EXPECT_DOUBLE_EQ(level["ratio"], 1.5);
  EXPECT_DOUBLE_EQ(level["drafted"]["tokens_per_second"], 150);
  EXPECT_DOUBLE_EQ(level["drafted"]["acceptance_by_depth"][1], 0.375);
  EXPECT_DOUBLE_EQ(level["drafted"]["first_token_seconds"]["p50"], 0.015);
  EXPECT_TRUE(level["plain"]["first_token_seconds"]["p50"].is_null());
  // 1000 tokens in 0.5 s against 250 tok/s.
  EXPECT_DOUBLE_EQ(json["prefill"]["ratio"], 8);
  EXPECT_NEAR(json["router"]["added_seconds"].get<double>(), 0.0015, 1e-12);
  EXPECT_EQ(json["model"]["name"], "tiny");
  EXPECT_FALSE(json["machine"]["processor"].get<std::string>().empty());
  EXPECT_FALSE(json["version"].get<std::string>().empty());
}

}  // namespace
}  // namespace tandem::cli
