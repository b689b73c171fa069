#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace tandem {

// Everything that the ops enqueued by Backend::RunRecorded depend on, besides the contents of
// backend memory: sizes of the pass, and addresses that differ between passes.
struct GraphKey {
  // Backend memory of whoever records, which tells recorders apart: it is never given to another.
  const void* owner = nullptr;
  std::array<uint64_t, 6> values = {};

  friend auto operator<=>(const GraphKey&, const GraphKey&) = default;
};

struct GraphCounts {
  int kept = 0;          // recorded graphs that can be replayed
  int64_t recorded = 0;  // since the backend was made
  int64_t replayed = 0;  // since the backend was made
};

}  // namespace tandem
