#pragma once

#include "kernels/attend/attend.h"
#include "kernels/launch_cuda.cuh"

namespace tandem {

inline constexpr int kQueryHeadsPerKey = kAttendQueryHeads / kAttendKeyHeads;

// Parts of AttendArgs::scratch.
struct AttendParts {
  float* y;          // [R, C]
  float* k;          // [R, 512]
  float* v;          // [R, 512]
  float* query_y;    // [Q, C]
  float* q;          // [Q, 2048]
  float* gate;       // [Q, 2048]
  float* attention;  // [Q, 2048]
  float* mixed;      // [Q, 16, chunks, 128] values of a chunk by their weights e^(score - largest)
  float2* softmax;   // [Q, 16, chunks] largest score of a chunk, sum of its weights
};

inline int AttendChunks(const AttendArgs& args) { return CeilDiv(args.window, kAttendChunk); }

// Even counts of floats before `softmax` keep it aligned.
inline AttendParts DivideCuda(const AttendArgs& args) {
  const size_t c = static_cast<size_t>(args.width);
  const size_t rows = static_cast<size_t>(args.rows);
  const size_t queries = static_cast<size_t>(args.queries);
  const size_t chunks = static_cast<size_t>(AttendChunks(args));
  float* next = args.scratch.data;
  const auto take = [&](size_t count) {
    float* const part = next;
    next += count;
    return part;
  };
  AttendParts parts;
  parts.y = take(rows * c);
  parts.k = take(rows * kAttendKeyWidth);
  parts.v = take(rows * kAttendKeyWidth);
  parts.query_y = take(queries * c);
  parts.q = take(queries * kAttendQueryWidth);
  parts.gate = take(queries * kAttendQueryWidth);
  parts.attention = take(queries * kAttendQueryWidth);
  parts.mixed = take(queries * kAttendQueryHeads * chunks * kAttendHeadWidth);
  parts.softmax = reinterpret_cast<float2*>(take(queries * kAttendQueryHeads * chunks * 2));
  return parts;
}

// What a query sees: `count` keys, the oldest at ring entry `begin`.
struct AttendWindow {
  int slot;
  int begin;
  int count;
};
__device__ inline AttendWindow WindowOf(const AttendArgs& args, int query) {
  const int row = args.query_rows.data[query];
  const long long position = args.positions.data[row];
  const long long first = args.first.data[row];
  const long long oldest = position - args.window + 1;
  const long long begin = first > oldest ? first : oldest;
  return {args.slots.data[row], static_cast<int>(begin % args.ring_size),
          static_cast<int>(position - begin) + 1};
}

// rope(rms(x)) of one head [128] by one warp, in place; weight [128]. The angle of pair i at a
// position is position · 1e6^(-i/16), in double until it is reduced to one turn.
__device__ inline void NormAndRotate(const float* weight, long long position, float* x) {
  static_assert(kAttendRopeWidth == kWarp && kAttendHeadWidth == 4 * kWarp);
  constexpr double kLog2Base = 19.931568569324174;
  constexpr double kHalfTurnsPerRadian = 0.31830988618379067;
  constexpr int kPairs = kAttendRopeWidth / 2;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float v[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) v[j] = x[lane + j * kWarp];
  const float squares = WarpSum(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3]);
  const float scale = 1.0f / sqrtf(squares / kAttendHeadWidth + kAttendRmsEps);
#pragma unroll
  for (int j = 0; j < 4; ++j) v[j] = v[j] * scale * weight[lane + j * kWarp];
  const double frequency = exp2(-kLog2Base / kPairs * (lane % kPairs));
  double half_turns = static_cast<double>(position) * frequency * kHalfTurnsPerRadian;
  half_turns -= 2.0 * rint(half_turns / 2.0);
  float sine, cosine;
  sincospif(static_cast<float>(half_turns), &sine, &cosine);
  const float other = __shfl_xor_sync(kAllLanes, v[0], kPairs);
  v[0] = v[0] * cosine + (lane < kPairs ? -other : other) * sine;
#pragma unroll
  for (int j = 0; j < 4; ++j) x[lane + j * kWarp] = v[j];
}

}  // namespace tandem
