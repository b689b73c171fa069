#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/rpc/status.h"

namespace tandem {

// Range checks that name the field; NaN is in no range.

template <typename T>
absl::Status CheckRange(absl::string_view field, T value, std::type_identity_t<T> low,
                        std::type_identity_t<T> high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return FieldError(field, absl::StrCat("is ", value, ", must be from ", low, " to ", high));
}

// Excludes `low`.
inline absl::Status CheckAbove(absl::string_view field, double value, double low, double high) {
  if (value > low && value <= high) return absl::OkStatus();
  return FieldError(field,
                    absl::StrCat("is ", value, ", must be above ", low, " and at most ", high));
}

// Excludes `high`.
inline absl::Status CheckBelow(absl::string_view field, double value, double low, double high) {
  if (value >= low && value < high) return absl::OkStatus();
  return FieldError(field,
                    absl::StrCat("is ", value, ", must be at least ", low, " and below ", high));
}

inline absl::Status CheckCount(absl::string_view field, size_t count, size_t most) {
  if (count <= most) return absl::OkStatus();
  return FieldError(field, absl::StrCat("has ", count, " entries, at most ", most, " are taken"));
}

// Ids of a repeated field, each below V.
template <typename Ids>
absl::Status CheckTokenIds(absl::string_view field, const Ids& ids, uint32_t vocabulary_size) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocabulary_size) continue;
    return FieldError(absl::StrCat(field, "[", i, "]"),
                      absl::StrCat("is ", ids[i], ", the vocabulary has the ids 0 to ",
                                   static_cast<int64_t>(vocabulary_size) - 1));
  }
  return absl::OkStatus();
}

}  // namespace tandem
