#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the calling function when `expr` (an absl::Status) is not OK.
#define RETURN_IF_ERROR(expr)                                         \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto x, F()): declares x from F()'s value, or returns F()'s error.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(TANDEM_CONCAT(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(value, lhs, expr)      \
  auto value = (expr);                               \
  if (!value.ok()) return std::move(value).status(); \
  lhs = *std::move(value)
