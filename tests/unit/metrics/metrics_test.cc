#include "common/metrics/metrics.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<MetricsPage> Page(const std::string& address = "") {
  auto page = MetricsPage::Create(address);
  EXPECT_TRUE(page.ok()) << page.status();
  (*page)->SetModel("demo");
  return *std::move(page);
}

TEST(Metrics, EveryMetricCarriesTheModelAndPrometheusNames) {
  auto page = Page();
  VerifierMetrics verifier(*page);
  std::istringstream lines(page->Text());
  std::string line;
  int samples = 0;
  while (std::getline(lines, line)) {
    if (line.rfind("# TYPE ", 0) == 0 && line.find(" counter") != std::string::npos) {
      EXPECT_THAT(line, HasSubstr("_total counter"));
    }
    if (line[0] == '#') continue;
    EXPECT_EQ(line.rfind("tandem_", 0), 0u) << line;
    EXPECT_THAT(line, HasSubstr("model=\"demo\""));
    ++samples;
  }
  EXPECT_GT(samples, 100);
}

TEST(Metrics, DepthsCountFromOne) {
  auto page = Page();
  VerifierMetrics verifier(*page);
  verifier.drafted[0]->Increment(3);
  verifier.accepted[2]->Increment();
  EXPECT_THAT(page->Text(), HasSubstr("tandem_drafted_tokens_total{depth=\"1\",model=\"demo\"} 3"));
  EXPECT_THAT(page->Text(),
              HasSubstr("tandem_accepted_tokens_total{depth=\"3\",model=\"demo\"} 1"));
  EXPECT_THAT(page->Text(), Not(HasSubstr("depth=\"0\"")));
}

TEST(Metrics, ReasonsFollowTheirEnum) {
  auto page = Page();
  VerifierMetrics verifier(*page);
  verifier.undrafted_rounds[static_cast<size_t>(Undrafted::kLate)]->Increment();
  verifier.rejected[static_cast<size_t>(Rejected::kTooLong)]->Increment();
  EXPECT_THAT(page->Text(),
              HasSubstr("tandem_undrafted_rounds_total{model=\"demo\",reason=\"late\"} 1"));
  EXPECT_THAT(page->Text(),
              HasSubstr("tandem_rejected_total{model=\"demo\",reason=\"too_long\"} 1"));
}

TEST(Metrics, ExactlyOneHandoffIsInForce) {
  auto page = Page();
  VerifierMetrics verifier(*page);
  verifier.SetHandoff("none", "no_drafter");
  verifier.SetHandoff("host", "attached");
  EXPECT_THAT(page->Text(), HasSubstr("mode=\"host\",model=\"demo\",reason=\"attached\"} 1"));
  EXPECT_THAT(page->Text(), HasSubstr("mode=\"none\",model=\"demo\",reason=\"no_drafter\"} 0"));
}

TEST(Metrics, ServingStateMoves) {
  auto page = Page();
  SetServingState(*page, "loading");
  SetServingState(*page, "serving");
  EXPECT_THAT(page->Text(), HasSubstr("state=\"serving\"} 1"));
  EXPECT_THAT(page->Text(), HasSubstr("state=\"loading\"} 0"));
}

TEST(Metrics, LatencyBucketsStartBelowAMillisecond) {
  EXPECT_EQ(LatencyBuckets().front(), 0.0005);
  EXPECT_EQ(TokenLatencyBuckets().front(), 0.000125);
  for (const auto& buckets :
       {LatencyBuckets(), TokenLatencyBuckets(), LongBuckets(), FineBuckets()}) {
    EXPECT_TRUE(std::is_sorted(buckets.begin(), buckets.end()));
    EXPECT_EQ(std::set<double>(buckets.begin(), buckets.end()).size(), buckets.size());
  }
}

TEST(MetricsPage, BindsAFreePortAndRefusesATakenOne) {
  auto page = Page("127.0.0.1:0");
  EXPECT_THAT(page->address(), ::testing::MatchesRegex("127.0.0.1:[1-9][0-9]*"));
  const auto second = MetricsPage::Create(page->address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr(page->address()));
}

}  // namespace
}  // namespace tandem
