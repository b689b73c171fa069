#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::cli {

// Strict readers of option values, for Option::transform. Each refuses with one line that holds the
// value and what would be right; the command line puts the option's name in front of it.

// A decimal number from `low` to `high`: no other base, no wrap-around, no clamping. A number
// without sign never becomes a large one because of a minus.
CLI::Validator WholeNumber(absl::int128 low, absl::int128 high);

// An option that takes such a number; its present `value` is shown as the default.
CLI::Option* AddCountOption(CLI::App& app, const std::string& name, int& value, int low, int high,
                            const std::string& help);

struct RealRange {
  double low = 0;
  double high = 0;
  bool above_low = false;   // `low` itself is outside
  bool below_high = false;  // `high` itself is outside
};
// A finite decimal number in the range.
CLI::Validator RealNumber(const RealRange& range);

// UTF-8 of `low` to `high` bytes.
CLI::Validator Utf8Text(size_t low, size_t high);
CLI::Validator Utf8Text();

// OK, or "not UTF-8 at byte N", counted from 0, and what to do.
absl::Status CheckUtf8(absl::string_view text);

// "30s", "1m30s", "250ms", from `low` to `high`; as the flags of the services, a number without a
// unit is refused unless it is 0. INVALID_ARGUMENT with value and range.
absl::StatusOr<absl::Duration> ParseDuration(const std::string& text, absl::Duration low,
                                             absl::Duration high);

// An option that takes such a duration; its present `value`, unless infinite, is shown as the
// default. `value` must live as long as `app`.
CLI::Option* AddDurationOption(CLI::App& app, const std::string& name, absl::Duration& value,
                               absl::Duration low, absl::Duration high, const std::string& help);

}  // namespace tandem::cli
