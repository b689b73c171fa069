#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/drafter/mtp/mtp_feed.h"
#include "kernels/lanes.h"
#include "kernels/view.h"

namespace tandem {

// How many rows the ops of a computation have; decides every launch and the layout of its inputs.
struct MtpCounts {
  int feeds = 0;
  int rows = 0;                                 // R positions
  int queries = 0;                              // Q of them attend
  std::array<int, kMaxDrafts + 1> drafts = {};  // [k] feeds that want a draft of depth k, k > 0
  bool prompt = false;  // some feed has more positions than drafts can have made certain
};

MtpCounts CountsOf(absl::Span<const MtpFeed> feeds);

// The inputs of one computation: written on the host, read by the ops from a copy in backend
// memory.
struct MtpInputs {
  template <class T>
  struct Input {
    View<T> host;
    View<T> device;
  };
  Input<const float*> features;  // [R], as all below up to slots
  Input<int64_t> positions;
  Input<int64_t> first;
  Input<int32_t> tokens;
  Input<int32_t> slots;
  Input<int32_t> query_rows;                                   // [Q]
  Input<float*> z;                                             // [Q]
  Input<float*> z_prev;                                        // [drafts of depth 1]
  Input<int32_t> draft_slots;                                  // [drafts of depth 1]
  Input<int64_t> draft_first;                                  // [drafts of depth 1]
  std::array<Input<int64_t>, kMaxDrafts + 1> draft_positions;  // [k]: [drafts of depth k], k > 1
  size_t bytes = 0;                                            // of all

  // Where the inputs lie in a block on the host and in its copy in backend memory. Without memory
  // only the sizes are added up.
  static MtpInputs Divide(const MtpCounts& counts, std::byte* host, std::byte* device);
};

}  // namespace tandem
