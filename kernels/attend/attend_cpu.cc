#include <algorithm>
#include <array>

#include "kernels/attend/attend.h"
#include "kernels/attend/attend_head.h"
#include "kernels/layer_norm.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/thread_pool.h"

namespace tandem {
namespace {

// Parts of AttendArgs::scratch.
struct Scratch {
  View<float> y;          // [R, C]
  View<float> k;          // [R, 512]
  View<float> v;          // [R, 512]
  View<float> query_y;    // [Q, C]
  View<float> q;          // [Q, 2048]
  View<float> gate;       // [Q, 2048]
  View<float> attention;  // [Q, 2048]
  View<float> scores;     // [Q, 16, window]
};

Scratch Divide(const AttendArgs& args) {
  const size_t c = static_cast<size_t>(args.width);
  const size_t rows = static_cast<size_t>(args.rows);
  const size_t queries = static_cast<size_t>(args.queries);
  size_t used = 0;
  const auto take = [&](size_t count) {
    const View<float> part = args.scratch.Sub(used, count);
    used += count;
    return part;
  };
  Scratch s;
  s.y = take(rows * c);
  s.k = take(rows * kAttendKeyWidth);
  s.v = take(rows * kAttendKeyWidth);
  s.query_y = take(queries * c);
  s.q = take(queries * kAttendQueryWidth);
  s.gate = take(queries * kAttendQueryWidth);
  s.attention = take(queries * kAttendQueryWidth);
  s.scores = take(queries * kAttendQueryHeads * args.window);
  return s;
}

void Project(const AttendArgs& args, const Scratch& s, ThreadPool& pool) {
  const size_t c = static_cast<size_t>(args.width);
  pool.ParallelFor(args.rows, [&](int row) {
    LayerNormRow(args.x.data + row * c, args.ln1_weight.data, args.ln1_bias.data, args.width,
                 s.y.data + row * c);
  });
  for (int i = 0; i < args.queries; ++i)
    std::copy_n(s.y.data + args.query_rows[i] * c, c, s.query_y.data + i * c);
  const std::array<LinearArgs, 4> jobs = {
      WholeRows(args.rows, args.key, s.y, s.k), WholeRows(args.rows, args.value, s.y, s.v),
      WholeRows(args.queries, args.query, s.query_y, s.q),
      WholeRows(args.queries, args.gate, s.query_y, s.gate, Epilogue::kSigmoid)};
  LinearManyCpu(jobs.data(), static_cast<int>(jobs.size()), pool);
}

void AppendKey(const AttendArgs& args, const Scratch& s, int row) {
  const size_t ring_size = static_cast<size_t>(args.ring_size);
  const size_t slot = static_cast<size_t>(args.slots[row]);
  const size_t entry = static_cast<size_t>(args.positions[row] % args.ring_size);
  const Rotation rotation = RotationAt(args.positions[row]);
  float* k = s.k.data + static_cast<size_t>(row) * kAttendKeyWidth;
  for (int head = 0; head < kAttendKeyHeads; ++head)
    NormAndRotate(args.k_norm.data, rotation, k + head * kAttendHeadWidth);
  float* keys = args.keys.data + slot * kAttendKeyWidth * ring_size + entry;
  for (int i = 0; i < kAttendKeyWidth; ++i) keys[i * ring_size] = k[i];
  std::copy_n(s.v.data + static_cast<size_t>(row) * kAttendKeyWidth, kAttendKeyWidth,
              args.values.data + (slot * ring_size + entry) * kAttendKeyWidth);
}

// Attention of query `index` for the query heads that share key head `key_head`, gate applied.
void AttendGroup(const AttendArgs& args, const Scratch& s, int index, int key_head) {
  const int row = args.query_rows[index];
  const int64_t position = args.positions[row];
  const int64_t begin = std::max(args.first[row], position - args.window + 1);
  const Rotation rotation = RotationAt(position);
  const size_t first_head =
      static_cast<size_t>(index) * kAttendQueryHeads + key_head * kQueryHeadsPerKey;
  float* queries = s.q.data + first_head * kAttendHeadWidth;
  for (int i = 0; i < kQueryHeadsPerKey; ++i)
    NormAndRotate(args.q_norm.data, rotation, queries + i * kAttendHeadWidth);
  const size_t ring = static_cast<size_t>(args.slots[row]) * args.ring_size * kAttendKeyWidth;
  const size_t head = static_cast<size_t>(key_head) * kAttendHeadWidth;
  AttendHeads({.queries = queries,
               .gates = s.gate.data + first_head * kAttendHeadWidth,
               .keys = args.keys.data + ring + head * args.ring_size,
               .values = args.values.data + ring + head,
               .ring_size = args.ring_size,
               .begin = static_cast<int>(begin % args.ring_size),
               .count = static_cast<int>(position - begin) + 1,
               .score_stride = static_cast<size_t>(args.window),
               .scores = s.scores.data + first_head * args.window,
               .out = s.attention.data + first_head * kAttendHeadWidth});
}

}  // namespace

void AttendCpu(const AttendArgs& args, ThreadPool& pool) {
  const size_t c = static_cast<size_t>(args.width);
  const Scratch s = Divide(args);
  Project(args, s, pool);
  pool.ParallelFor(args.rows, [&](int row) { AppendKey(args, s, row); });
  pool.ParallelFor(args.queries * kAttendKeyHeads,
                   [&](int i) { AttendGroup(args, s, i / kAttendKeyHeads, i % kAttendKeyHeads); });
  for (int i = 0; i < args.queries; ++i)
    std::copy_n(args.x.data + args.query_rows[i] * c, c, args.x_out.data + i * c);
  LinearCpu(WholeRows(args.queries, args.output, s.attention, args.x_out, Epilogue::kAdd), pool);
  pool.ParallelFor(args.queries, [&](int i) {
    LayerNormRow(args.x_out.data + i * c, args.ln2_weight.data, args.ln2_bias.data, args.width,
                 args.z[i]);
  });
}

}  // namespace tandem
