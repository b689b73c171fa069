#include "services/cli/option_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/tokenizer/utf8_decoder.h"

namespace tandem::cli {
namespace {

std::string Text(absl::int128 value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

// What was typed, fit for one line of a terminal whatever it holds.
std::string Shown(const std::string& text) {
  constexpr size_t kMaxShown = 64;
  std::string shown = ReplaceInvalidUtf8(text);
  if (shown.size() > kMaxShown)
    shown = absl::StrCat(ReplaceInvalidUtf8(text.substr(0, kMaxShown)), "...");
  return absl::StrCat("'", shown, "'");
}

std::string Describe(const RealRange& range) {
  return absl::StrCat(range.above_low ? "above " : "from ", range.low,
                      range.below_high ? " to below " : " to ", range.high);
}

bool Contains(const RealRange& range, double value) {
  const bool low = range.above_low ? value > range.low : value >= range.low;
  return low && (range.below_high ? value < range.high : value <= range.high);
}

}  // namespace

CLI::Validator WholeNumber(absl::int128 low, absl::int128 high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        absl::int128 value = 0;
        if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
          return absl::StrCat(Shown(text), " is not a whole number from ", Text(low), " to ",
                              Text(high));
        }
        // Written anew, since the command line reads a leading 0 as octal.
        text = Text(value);
        return std::string();
      },
      "");
}

CLI::Option* AddCountOption(CLI::App& app, const std::string& name, int& value, int low, int high,
                            const std::string& help) {
  return app.add_option(name, value, help)
      ->transform(WholeNumber(low, high))
      ->capture_default_str();
}

CLI::Validator RealNumber(const RealRange& range) {
  return CLI::Validator(
      [range](std::string& text) {
        double value = 0;
        const bool decimal = text.find_first_not_of("+-.0123456789eE") == std::string::npos;
        if (!decimal || !absl::SimpleAtod(text, &value) || !std::isfinite(value) ||
            !Contains(range, value)) {
          return absl::StrCat(Shown(text), " is not a number ", Describe(range));
        }
        return std::string();
      },
      "");
}

absl::Status CheckUtf8(absl::string_view text) {
  const std::string valid = ReplaceInvalidUtf8(text);
  const auto different = std::mismatch(text.begin(), text.end(), valid.begin(), valid.end());
  if (different.first == text.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("not UTF-8 at byte ",
                                                 different.first - text.begin(),
                                                 "; convert it, for example with iconv"));
}

CLI::Validator Utf8Text(size_t low, size_t high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        const absl::Status status = CheckUtf8(text);
        if (!status.ok()) return std::string(status.message());
        if (text.size() >= low && text.size() <= high) return std::string();
        return absl::StrCat(Shown(text), " has ", text.size(), " bytes, must have ", low, " to ",
                            high);
      },
      "");
}

CLI::Validator Utf8Text() { return Utf8Text(0, std::numeric_limits<size_t>::max()); }

absl::StatusOr<absl::Duration> ParseDuration(const std::string& text, absl::Duration low,
                                             absl::Duration high) {
  absl::Duration value;
  if (absl::ParseDuration(text, &value) && value >= low && value <= high) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(Shown(text), " is not a duration from ", absl::FormatDuration(low), " to ",
                   absl::FormatDuration(high), ", written as 30s or 1m30s"));
}

CLI::Option* AddDurationOption(CLI::App& app, const std::string& name, absl::Duration& value,
                               absl::Duration low, absl::Duration high, const std::string& help) {
  const auto read = [&value, low, high](const std::string& text) {
    // The check below has refused everything else.
    value = ParseDuration(text, low, high).value_or(value);
  };
  const auto check = [low, high](const std::string& text) {
    return std::string(ParseDuration(text, low, high).status().message());
  };
  return app.add_option_function<std::string>(name, read, help)
      ->check(check)
      ->type_name("DURATION")
      ->default_str(value == absl::InfiniteDuration() ? "" : absl::FormatDuration(value));
}

}  // namespace tandem::cli
