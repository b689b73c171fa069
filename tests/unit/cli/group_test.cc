#include "services/cli/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace tandem::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

GroupOptions Options() {
  return {.binaries = "/opt/bin",
          .model = "/models/m",
          .address = "127.0.0.1:50051",
          .verifier_address = "127.0.0.1:0",
          .router_metrics = "127.0.0.1:0",
          .verifier_metrics = "127.0.0.1:0",
          .drafter_metrics = "127.0.0.1:0",
          .backend = "cuda",
          .verifier_flags = {"--threads=2"},
          .drafter_flags = {"--threads=1"}};
}

std::string Ready(const std::string& address, const std::string& metrics) {
  return nlohmann::json({{"address", address}, {"metrics_address", metrics}}).dump();
}

TEST(GroupTest, CommandLines) {
  Group group(Options(), "/run/t");
  const std::vector<ChildSpec> children = group.Children();
  ASSERT_EQ(children.size(), 3u);
  EXPECT_EQ(children[0].name, "verifier");
  const std::vector<std::string> verifier = children[0].command();
  EXPECT_EQ(verifier[0], "/opt/bin/tandem-verifier");
  EXPECT_EQ(verifier.back(), "--threads=2");
  for (const char* flag :
       {"--model=/models/m", "--address=127.0.0.1:0", "--mtp-path=auto",
        "--draft-socket=/run/t/draft.sock", "--ready-file=/run/t/verifier.json"}) {
    EXPECT_THAT(verifier, Contains(flag));
  }
  EXPECT_EQ(children[1].name, "drafter");
  EXPECT_THAT(children[1].command(), Contains("--socket=/run/t/draft.sock"));
  EXPECT_THAT(children[1].command(), Contains("--threads=1"));
  EXPECT_THAT(verifier, Contains("--backend=cuda"));
  EXPECT_THAT(children[1].command(), Contains("--backend=cuda"));
  EXPECT_EQ(children[2].name, "router");
  EXPECT_THAT(group.StopOrder(), ElementsAre("router", "verifier", "drafter"));
}

TEST(GroupTest, PortsOfTheFirstStartStay) {
  Group group(Options(), "/run/t");
  const std::vector<ChildSpec> children = group.Children();
  ASSERT_TRUE(group.SetReady("verifier", 11, Ready("127.0.0.1:4001", "127.0.0.1:4002")).ok());
  EXPECT_THAT(children[0].command(), Contains("--address=127.0.0.1:4001"));
  EXPECT_THAT(children[0].command(), Contains("--metrics-address=127.0.0.1:4002"));
  EXPECT_THAT(children[2].command(), Contains("--verifiers=127.0.0.1:4001"));
  EXPECT_THAT(children[2].command(), Contains("--address=127.0.0.1:50051"));
}

TEST(GroupTest, WithoutADrafter) {
  GroupOptions options = Options();
  options.drafter = false;
  options.mtp_path = "off";
  Group group(options, "/run/t");
  ASSERT_EQ(group.Children().size(), 2u);
  EXPECT_THAT(group.Children()[0].command(), Contains("--mtp-path=off"));
  EXPECT_THAT(group.StopOrder(), ElementsAre("router", "verifier"));
}

TEST(GroupTest, ForcingReachesVerifierAndDrafter) {
  GroupOptions options = Options();
  EXPECT_THAT(Group(options, "/r").Children()[1].command(), Not(Contains("--mtp-force")));
  options.mtp_force = true;
  Group group(options, "/r");
  EXPECT_THAT(group.Children()[0].command(), Contains("--mtp-force"));
  EXPECT_THAT(group.Children()[1].command(), Contains("--mtp-force"));
}

TEST(GroupTest, TheDrainTimeReachesRouterAndVerifier) {
  GroupOptions options = Options();
  options.drain_timeout = absl::Seconds(90);
  Group group(options, "/r");
  EXPECT_THAT(group.Children()[0].command(), Contains("--drain-timeout=1m30s"));
  EXPECT_THAT(group.Children()[2].command(), Contains("--drain-timeout=1m30s"));
}

TEST(GroupTest, ReadyJsonNamesEveryProcess) {
  Group group(Options(), "/run/t");
  ASSERT_TRUE(group.SetReady("verifier", 11, Ready("127.0.0.1:1", "127.0.0.1:2")).ok());
  ASSERT_TRUE(group.SetReady("drafter", 12, Ready("unix:/run/t/draft.sock", "127.0.0.1:3")).ok());
  ASSERT_TRUE(group.SetReady("router", 13, Ready("127.0.0.1:50051", "127.0.0.1:4")).ok());
  const nlohmann::json json = nlohmann::json::parse(group.ReadyJson());
  EXPECT_EQ(json["address"], "127.0.0.1:50051");
  EXPECT_EQ(json["verifier"], "127.0.0.1:1");
  EXPECT_EQ(json["pid"], getpid());
  EXPECT_EQ(json["pids"]["drafter"], 12);
  EXPECT_EQ(json["metrics"]["router"], "127.0.0.1:4");
  EXPECT_THAT(group.Describe(), HasSubstr("http://127.0.0.1:4/metrics"));
}

TEST(GroupTest, AReadyFileMustHoldAddresses) {
  Group group(Options(), "/run/t");
  for (const char* text :
       {"", "[]", "{\"address\": 1, \"metrics_address\": \"a\"}", "{\"address\": \"a\"}"}) {
    EXPECT_EQ(group.SetReady("router", 1, text).code(), absl::StatusCode::kInternal) << text;
  }
}

TEST(GroupTest, OwnFolderIsAbsolute) { EXPECT_THAT(*OwnFolder(), StartsWith("/")); }

}  // namespace
}  // namespace tandem::cli
