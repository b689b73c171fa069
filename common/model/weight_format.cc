#include "common/model/weight_format.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

constexpr WeightFormat kAll[] = {
#define TANDEM_WEIGHT_FORMAT(name, folder) WeightFormat::k##name,
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT
};

// Logits need more than 6 bits.
constexpr WeightFormat kHead[] = {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kInt8};

}  // namespace

const char* WeightFormatName(WeightFormat format) {
  switch (format) {
#define TANDEM_WEIGHT_FORMAT(name, folder) \
  case WeightFormat::k##name:              \
    return #folder;
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT
  }
  return "unknown";
}

absl::StatusOr<WeightFormat> ParseWeightFormat(absl::string_view flag, absl::string_view text,
                                               absl::Span<const WeightFormat> accepted) {
  for (const WeightFormat format : accepted) {
    if (text == WeightFormatName(format)) return format;
  }
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", text, ": must be one of ",
                                                 absl::StrJoin(WeightFormatNames(accepted), ", ")));
}

absl::StatusOr<std::optional<WeightFormat>> ParseFileWeightFormat(
    absl::string_view flag, absl::string_view text, absl::Span<const WeightFormat> accepted) {
  if (text == kAsTheFileIs) return std::nullopt;
  const auto format = ParseWeightFormat(flag, text, accepted);
  if (format.ok()) return *format;
  return absl::InvalidArgumentError(absl::StrCat(format.status().message(), ", or ", kAsTheFileIs));
}

std::vector<std::string> WeightFormatNames(absl::Span<const WeightFormat> formats) {
  std::vector<std::string> names;
  for (const WeightFormat format : formats) names.push_back(WeightFormatName(format));
  return names;
}

absl::StatusOr<bool> ParseActivations(absl::string_view flag, absl::string_view text) {
  if (text == "exact" || text == "fp8") return text == "fp8";
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", text, ": must be one of exact, fp8"));
}

absl::Span<const WeightFormat> AllWeightFormats() { return kAll; }
absl::Span<const WeightFormat> HeadWeightFormats() { return kHead; }

}  // namespace tandem
