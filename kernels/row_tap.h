#pragma once

#include <cstddef>

namespace tandem {

// Where an op leaves a copy of its rows for a drafter: row i at *rows + offset + i * stride. The op
// reads *rows when it runs, so that one that was recorded serves every address; null in either
// place: no copy is wanted.
struct RowTap {
  float* const* rows = nullptr;  // [1] backend memory
  size_t offset = 0;             // in floats
  size_t stride = 0;             // in floats

  bool wanted() const { return rows != nullptr && *rows != nullptr; }  // for ops on the host
};

}  // namespace tandem
