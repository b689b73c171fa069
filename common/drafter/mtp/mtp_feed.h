#pragma once

#include <cstdint>

namespace tandem {

// The certain positions of one slot in one computation, checked and trimmed.
struct MtpFeed {
  int32_t slot = 0;
  bool cold = false;                     // forget the slot's shift first
  int32_t count = 0;                     // positions, 1 .. window + 1
  int32_t wanted = 0;                    // drafts after the last position, 0 .. kMaxDrafts
  int64_t position = 0;                  // of the first one
  int64_t first = 0;                     // lowest position of the slot that has a key
  const float* features = nullptr;       // [count, 3C] in backend memory
  const int32_t* next_tokens = nullptr;  // [count], or [count - 1] where only the device knows more
  int32_t* drafts = nullptr;             // [wanted] out of Run

  // For Enqueue: rows of drafts behind the positions, whose features follow; whether the device
  // knows the last next token; the lane's record with what it must echo; positions that became
  // certain, 0 where it does not, out of Finish.
  int32_t provisional = 0;
  bool chooses = false;
  int32_t record = 0;
  uint32_t generation = 0;
  int32_t* fed = nullptr;

  int rows() const { return count + provisional; }
};

}  // namespace tandem
