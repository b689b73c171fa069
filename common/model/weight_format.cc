#include "common/model/weight_format.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

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
  std::string names;
  for (const WeightFormat format : accepted) {
    if (text == WeightFormatName(format)) return format;
    absl::StrAppend(&names, names.empty() ? "" : ", ", WeightFormatName(format));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", text, ": must be one of ", names));
}

absl::Span<const WeightFormat> AllWeightFormats() { return kAll; }
absl::Span<const WeightFormat> HeadWeightFormats() { return kHead; }

}  // namespace tandem
