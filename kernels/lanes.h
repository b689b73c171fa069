#pragma once

#include <cstdint>

namespace tandem {

// Most drafts that one pass verifies per sequence, and so the depth of every slot's log.
inline constexpr int kMaxDrafts = 8;

// The entries of a slot's log that a pass may replay, whatever the counter says.
constexpr int ClampAccepted(int accepted) {
  return accepted < 0 ? 0 : accepted < kMaxDrafts ? accepted : kMaxDrafts;
}

// How the T rows of a pass belong to its B lanes (one lane = one sequence in one pass), and which
// rows are drafts. Rows offsets[b] .. offsets[b+1]-1 are lane b's tokens in order; the last
// provisional[b] of them are drafts, the rest (at least one) are certain. Before its first row, a
// state op replays accepted[slots[b]] entries of the slot's log into the committed state; it
// commits the certain rows and logs the provisional ones.
struct Lanes {
  int count = 0;                         // B
  const int32_t* offsets = nullptr;      // [B + 1], offsets[0] = 0, offsets[B] = T
  const int32_t* slots = nullptr;        // [B], distinct
  const int32_t* provisional = nullptr;  // [B], 0 .. kMaxDrafts, less than the lane's rows
  const int32_t* accepted = nullptr;     // [S] by slot, 0 .. kMaxDrafts
};

}  // namespace tandem
