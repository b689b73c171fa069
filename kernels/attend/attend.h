#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

inline constexpr int kAttendQueryHeads = 16;
inline constexpr int kAttendKeyHeads = 4;
inline constexpr int kAttendHeadWidth = 128;
inline constexpr int kAttendQueryWidth = kAttendQueryHeads * kAttendHeadWidth;  // 2048
inline constexpr int kAttendKeyWidth = kAttendKeyHeads * kAttendHeadWidth;      // 512
inline constexpr int kAttendRopeWidth = 32;
inline constexpr double kAttendRopeBase = 1e6;
// Floats after the last key that may be read, and are not used.
inline constexpr int kAttendKeyPadding = 32;
inline constexpr float kAttendRmsEps = 1e-6f;
// Keys, counted from the oldest that a query sees, whose part of the softmax may be summed apart.
inline constexpr int kAttendChunk = 32;

// The attention half of a drafter's block. For R rows, y = LN_ln1(x):
//   k = rope(rms(W_k·y)), v = W_v·y go to the slot's ring at index position mod ring_size
// and for the Q rows that ask, after all keys and values of the call are written:
//   q = rope(rms(W_q·y)); query head i uses key head i / 4; scores (q·k) / sqrt(128) over the keys
//   of positions max(first, position - window + 1) .. position; softmax in fp32
//   x_out = x + W_o · (attention ⊙ sigmoid(W_g·y));  z = LN_ln2(x_out)
// rms has eps 1e-6, one weight for all heads; rope turns the pairs (i, i + 16) of the first 32
// dimensions by position · 1e6^(-i/16). Rows are independent given the ring: results do not
// depend on the other rows.
struct AttendArgs {
  int rows = 0;       // R
  int queries = 0;    // Q
  int width = 0;      // C
  int ring_size = 0;  // entries per slot
  int window = 0;     // keys that a query sees, its own included; <= ring_size

  View<const float> x;             // [R, C]
  View<const int32_t> slots;       // [R]
  View<const int64_t> positions;   // [R], >= 0; within a slot distinct modulo ring_size
  View<const int64_t> first;       // [R] lowest position of the slot that has a key
  View<const int32_t> query_rows;  // [Q] rows that ask

  View<const float> ln1_weight;  // [C]
  View<const float> ln1_bias;    // [C]
  View<const float> ln2_weight;  // [C]
  View<const float> ln2_bias;    // [C]
  View<const float> q_norm;      // [128]
  View<const float> k_norm;      // [128]
  Matrix query;                  // [2048, C]
  Matrix key;                    // [512, C]
  Matrix value;                  // [512, C]
  Matrix gate;                   // [2048, C]
  Matrix output;                 // [C, 2048]

  View<float> keys;      // [S, 4, 128, ring_size], then kAttendKeyPadding floats of any value
  View<float> values;    // [S, ring_size, 4, 128]
  View<float> x_out;     // [Q, C] out
  View<float* const> z;  // [Q] pointers to [C] rows, distinct, out
  View<float> scratch;   // AttendScratch(R, Q, C, window) floats
};

constexpr size_t AttendScratch(size_t rows, size_t queries, size_t width, size_t window) {
  const size_t chunks = (window + kAttendChunk - 1) / kAttendChunk;
  return rows * (width + 2 * kAttendKeyWidth) +
         queries *
             (width + 3 * kAttendQueryWidth + kAttendQueryHeads * chunks * (kAttendHeadWidth + 2));
}

void AttendCpu(const AttendArgs& args, ThreadPool& pool);

}  // namespace tandem
