#include "services/cli/option_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace tandem::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kInvalidUtf8[] = "caf\xE9 au lait";

// What the validator leaves of the text, or its complaint.
struct Outcome {
  std::string value;
  std::string complaint;
};
Outcome Apply(const CLI::Validator& validator, std::string text) {
  std::string complaint = validator(text);
  return {.value = text, .complaint = complaint};
}

TEST(WholeNumberTest, TakesTheWholeRangeAsDecimal) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const CLI::Validator validator = WholeNumber(0, kMax);
  EXPECT_EQ(Apply(validator, "18446744073709551615").complaint, "");
  EXPECT_EQ(Apply(validator, "0").complaint, "");
  // Not octal.
  EXPECT_EQ(Apply(validator, "010").value, "10");
  EXPECT_EQ(Apply(WholeNumber(-100, 100), "-100").complaint, "");
}

TEST(WholeNumberTest, SaysValueAndRangeOfEverythingElse) {
  for (const char* text : {"18446744073709551616", "-1", "1.0", "0x10", "many", "", "1 2", "nan"}) {
    EXPECT_THAT(
        Apply(WholeNumber(0, std::numeric_limits<uint64_t>::max()), text).complaint,
        AllOf(HasSubstr(std::string("'") + text + "'"), HasSubstr("0 to 18446744073709551615")));
  }
  EXPECT_THAT(Apply(WholeNumber(-100, 100), "-101").complaint, HasSubstr("-100 to 100"));
}

TEST(RealNumberTest, IsFiniteAndInRange) {
  const RealRange closed = {.low = -2, .high = 2};
  for (const char* text : {"-2", "2", "0.5", "1e-3"}) {
    EXPECT_EQ(Apply(RealNumber(closed), text).complaint, "") << text;
  }
  for (const char* text : {"nan", "inf", "-inf", "1e300", "2.001", "0x1", "1,5", ""}) {
    EXPECT_THAT(Apply(RealNumber(closed), text).complaint, HasSubstr("from -2 to 2")) << text;
  }
  const RealRange open = {.high = 1, .above_low = true, .below_high = true};
  EXPECT_EQ(Apply(RealNumber(open), "0.5").complaint, "");
  for (const char* text : {"0", "1"}) {
    EXPECT_THAT(Apply(RealNumber(open), text).complaint, HasSubstr("above 0 to below 1")) << text;
  }
}

TEST(Utf8TextTest, SaysWhereItIsNotUtf8) {
  EXPECT_EQ(Apply(Utf8Text(), "日本語\n\xF0\x9F\x98\x80").complaint, "");
  EXPECT_EQ(Apply(Utf8Text(), "\xEF\xBF\xBD").complaint, "");
  EXPECT_THAT(Apply(Utf8Text(), kInvalidUtf8).complaint, HasSubstr("not UTF-8 at byte 3"));
  // Cut in the middle of a character.
  EXPECT_THAT(Apply(Utf8Text(), "ab\xE6\x97").complaint, HasSubstr("not UTF-8 at byte 2"));
  EXPECT_THAT(Apply(Utf8Text(1, 4), "").complaint, HasSubstr("0 bytes, must have 1 to 4"));
  EXPECT_THAT(Apply(Utf8Text(1, 4), "12345").complaint, HasSubstr("5 bytes"));
}

TEST(ParseDurationTest, UnitsAreNeeded) {
  const absl::Duration hour = absl::Hours(1);
  EXPECT_EQ(*ParseDuration("30s", absl::ZeroDuration(), hour), absl::Seconds(30));
  EXPECT_EQ(*ParseDuration("1m30s", absl::ZeroDuration(), hour), absl::Seconds(90));
  EXPECT_EQ(*ParseDuration("0", absl::ZeroDuration(), hour), absl::ZeroDuration());
  for (const char* text : {"30", "-1s", "nan", "inf", "1e300", "1h1s", "s", "", "30 s"}) {
    const auto duration = ParseDuration(text, absl::ZeroDuration(), hour);
    EXPECT_THAT(std::string(duration.status().message()),
                AllOf(HasSubstr(std::string("'") + text + "'"), HasSubstr("from 0 to 1h"),
                      HasSubstr("30s or 1m30s")));
  }
}

TEST(AddDurationOptionTest, SetsTheValueOrNamesTheOption) {
  CLI::App app;
  absl::Duration value = absl::Seconds(5);
  AddDurationOption(app, "--limit", value, absl::Seconds(1), absl::Seconds(9), "A limit");
  EXPECT_THAT(app.help(), HasSubstr("--limit DURATION=5s"));
  app.parse(std::vector<std::string>{"--limit=7s"});
  EXPECT_EQ(value, absl::Seconds(7));
  try {
    app.parse(std::vector<std::string>{"--limit=10s"});
    FAIL() << "10 s were taken";
  } catch (const CLI::ParseError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("--limit"), HasSubstr("'10s'"), HasSubstr("1s to 9s")));
  }
}

}  // namespace
}  // namespace tandem::cli
