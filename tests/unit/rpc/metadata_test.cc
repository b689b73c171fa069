#include "common/rpc/metadata.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/rpc/status.h"

namespace tandem {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

absl::StatusOr<RequestMetadata> Parse(const Pairs& pairs, const v1::GenerateRequest& request = {}) {
  std::multimap<grpc::string_ref, grpc::string_ref> metadata;
  for (const auto& [key, value] : pairs) metadata.emplace(key, value);
  return ParseMetadata(metadata, request);
}

TEST(Metadata, AbsentKeysAreFine) {
  const auto parsed = Parse({{"user-agent", "x"}});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->priority, 0);
  EXPECT_TRUE(parsed->traceparent.empty());
}

TEST(Metadata, GoodValuesAreTaken) {
  const auto parsed = Parse({{"tandem-priority", "-100"},
                             {"traceparent", kParent},
                             {"tracestate", "a=b"},
                             {"authorization", "Bearer x"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->priority, -100);
  EXPECT_EQ(parsed->traceparent, kParent);
  EXPECT_EQ(parsed->tracestate, "a=b");
}

TEST(Metadata, MalformedValuesNameTheirKey) {
  const Pairs bad = {{"tandem-priority", "101"},
                     {"tandem-priority", "-101"},
                     {"tandem-priority", "high"},
                     {"tandem-priority", ""},
                     {"tandem-priority", "1.5"},
                     {"traceparent", ""},
                     {"traceparent", "00-1-2-3"},
                     {"traceparent", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"},
                     {"traceparent", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
                     {"traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"},
                     {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"},
                     {"tracestate", std::string(513, 'x')},
                     {"authorization", ""}};
  for (const auto& [key, value] : bad) {
    const auto parsed = Parse({{key, value}});
    ASSERT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << key << "=" << value;
    EXPECT_EQ(FieldViolations(parsed.status())[0].field, key);
  }
}

TEST(Metadata, RepeatedKeysAreRefused) {
  const Pairs values = {{"tandem-priority", "1"},
                        {"traceparent", kParent},
                        {"tracestate", "a=b"},
                        {"authorization", "Bearer x"}};
  for (const auto& pair : values) {
    const auto parsed = Parse({pair, pair});
    ASSERT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << pair.first;
    EXPECT_EQ(FieldViolations(parsed.status())[0].field, pair.first);
  }
}

TEST(Metadata, TheFieldWinsOverWhateverThePriorityKeySays) {
  v1::GenerateRequest request;
  request.set_priority(-3);
  for (const char* value : {"7", "loud", "", "101"}) {
    const auto parsed = Parse({{"tandem-priority", value}}, request);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->priority, -3);
  }
  EXPECT_TRUE(Parse({{"tandem-priority", "1"}, {"tandem-priority", "2"}}, request).ok());
  request.set_priority(0);
  EXPECT_EQ(Parse({{"tandem-priority", "7"}}, request)->priority, 0) << "zero is set, not absent";
}

}  // namespace
}  // namespace tandem
