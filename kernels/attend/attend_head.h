#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/attend/attend.h"

namespace tandem {

inline constexpr int kQueryHeadsPerKey = kAttendQueryHeads / kAttendKeyHeads;

// What rope does to the pairs (i, i + 16) at one position.
struct Rotation {
  std::array<float, kAttendRopeWidth / 2> cosine;
  std::array<float, kAttendRopeWidth / 2> sine;
};
Rotation RotationAt(int64_t position);

// rope(rms(x)) of one head [128] in place; weight [128].
void NormAndRotate(const float* weight, const Rotation& rotation, float* x);

// The query heads that share one key head: softmax attention over `count` keys, oldest first, then
// the gate.
struct AttendHeadArgs {
  const float* queries = nullptr;  // [4, 128]
  const float* gates = nullptr;    // [4, 128]
  const float* keys = nullptr;     // [128, ring_size] of the slot and key head
  const float* values = nullptr;   // of the slot and key head: entries of [128], 512 floats apart
  int ring_size = 0;
  int begin = 0;            // ring entry of the oldest key; the next ones follow, modulo ring_size
  int count = 0;            // >= 1
  size_t score_stride = 0;  // >= count
  float* scores = nullptr;  // [4, score_stride] scratch
  float* out = nullptr;     // [4, 128]
};
void AttendHeads(const AttendHeadArgs& args);

}  // namespace tandem
