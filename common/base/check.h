#pragma once

#include "common/base/log.h"

// CHECK is for our own mistakes only; what the world can do to us returns absl::Status.
#define CHECK(condition) \
  (condition)            \
      ? (void)0          \
      : ::tandem::LogVoidify() & ::tandem::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define CHECK_EQ(a, b) CHECK((a) == (b)) << (a) << " vs " << (b) << ' '
#define CHECK_NE(a, b) CHECK((a) != (b)) << (a) << " vs " << (b) << ' '
#define CHECK_LE(a, b) CHECK((a) <= (b)) << (a) << " vs " << (b) << ' '
#define CHECK_LT(a, b) CHECK((a) < (b)) << (a) << " vs " << (b) << ' '
#define CHECK_GE(a, b) CHECK((a) >= (b)) << (a) << " vs " << (b) << ' '
#define CHECK_GT(a, b) CHECK((a) > (b)) << (a) << " vs " << (b) << ' '
#define CHECK_OK(expr)                                           \
  do {                                                           \
    if (auto check_status_ = (expr); !check_status_.ok())        \
      CHECK(false) << #expr << ": " << check_status_.ToString(); \
  } while (false)
