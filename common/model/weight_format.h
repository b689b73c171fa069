#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/linear/linear.h"

namespace tandem {

// "bf16", "fp8", "int8" or "int6".
const char* WeightFormatName(WeightFormat format);

// The format that a flag names. INVALID_ARGUMENT, naming the flag and what it accepts, for anything
// but the names of `accepted`.
absl::StatusOr<WeightFormat> ParseWeightFormat(absl::string_view flag, absl::string_view text,
                                               absl::Span<const WeightFormat> accepted);

// The same for a flag whose kAsTheFileIs, no value here, leaves weights as the file has them.
inline constexpr char kAsTheFileIs[] = "file";
absl::StatusOr<std::optional<WeightFormat>> ParseFileWeightFormat(
    absl::string_view flag, absl::string_view text, absl::Span<const WeightFormat> accepted);

// Whether inputs are rounded too: "exact" or "fp8". INVALID_ARGUMENT, naming the flag, for others.
absl::StatusOr<bool> ParseActivations(absl::string_view flag, absl::string_view text);

// What --weights and --draft-weights accept.
absl::Span<const WeightFormat> AllWeightFormats();
// What --head-weights accepts.
absl::Span<const WeightFormat> HeadWeightFormats();

// Their names.
std::vector<std::string> WeightFormatNames(absl::Span<const WeightFormat> formats);

}  // namespace tandem
