#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend/attend_head.cc"
#include "kernels/attend/attend_head.h"

#include <algorithm>
#include <cmath>

#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

constexpr int kHeads = kQueryHeadsPerKey;
constexpr int kWidth = kAttendHeadWidth;

float MeanSquare(const float* x) {
  F16 sum = Set16(0.0f);
  for (int i = 0; i < kWidth; i += 16) {
    const F16 v = Load16(x + i);
    sum = Fma16(v, v, sum);
  }
  return Sum16(sum) / kWidth;
}

// As many registers as a tile of kTile x 16 outputs of four heads can use.
constexpr int kTile = kVectorRegisters == 32 ? 2 : 1;
static_assert(kTile * 16 <= kAttendKeyPadding);

// Scores of `count` keys that lie side by side from `keys` on: to[head · stride + n].
void ScoreRun(const AttendHeadArgs& args, const float* keys, int count, float* to) {
  const F16 scale = Set16(1.0f / std::sqrt(static_cast<float>(kWidth)));
  for (int begin = 0; begin < count; begin += kTile * 16) {
    F16 sums[kHeads][kTile];
    for (auto& head : sums) std::fill_n(head, kTile, Set16(0.0f));
    for (int i = 0; i < kWidth; ++i) {
      const float* k = keys + static_cast<size_t>(i) * args.ring_size + begin;
      for (int tile = 0; tile < kTile; ++tile) {
        const F16 k16 = Load16(k + tile * 16);
        for (int head = 0; head < kHeads; ++head)
          sums[head][tile] = Fma16(Set16(args.queries[head * kWidth + i]), k16, sums[head][tile]);
      }
    }
    HWY_ALIGN float lanes[kTile * 16];
    for (int head = 0; head < kHeads; ++head) {
      for (int tile = 0; tile < kTile; ++tile) Store16(sums[head][tile] * scale, lanes + tile * 16);
      std::copy_n(lanes, std::min(kTile * 16, count - begin),
                  to + static_cast<size_t>(head) * args.score_stride + begin);
    }
  }
}

// One head's scores become e^(score - largest); returns their sum, lane l over n = l, l + 16, ...
float Exponentials(int count, float* scores) {
  const float largest = *std::max_element(scores, scores + count);
  F16 sum = Set16(0.0f);
  for (int begin = 0; begin < count; begin += 16) {
    const int lanes = std::min(16, count - begin);
    HWY_ALIGN float lane[16] = {};
    std::copy_n(scores + begin, lanes, lane);
    Store16(Exp16(Load16(lane) - Set16(largest)), lane);
    std::fill(lane + lanes, lane + 16, 0.0f);
    sum = sum + Load16(lane);
    std::copy_n(lane, lanes, scores + begin);
  }
  return Sum16(sum);
}

void Mix(const AttendHeadArgs& args, const float* sums) {
  for (int part = 0; part < kWidth; part += kTile * 16) {
    F16 mixed[kHeads][kTile];
    for (auto& head : mixed) std::fill_n(head, kTile, Set16(0.0f));
    int entry = args.begin;
    for (int n = 0; n < args.count; ++n) {
      const float* value = args.values + static_cast<size_t>(entry) * kAttendKeyWidth + part;
      for (int tile = 0; tile < kTile; ++tile) {
        const F16 v = Load16(value + tile * 16);
        for (int head = 0; head < kHeads; ++head)
          mixed[head][tile] =
              Fma16(Set16(args.scores[head * args.score_stride + n]), v, mixed[head][tile]);
      }
      if (++entry == args.ring_size) entry = 0;
    }
    for (int head = 0; head < kHeads; ++head) {
      for (int tile = 0; tile < kTile; ++tile) {
        const int at = head * kWidth + part + tile * 16;
        Store16(mixed[head][tile] / Set16(sums[head]) * Load16(args.gates + at), args.out + at);
      }
    }
  }
}

void Attention(const AttendHeadArgs& args) {
  const int before_wrap = std::min(args.count, args.ring_size - args.begin);
  ScoreRun(args, args.keys + args.begin, before_wrap, args.scores);
  ScoreRun(args, args.keys, args.count - before_wrap, args.scores + before_wrap);
  float sums[kHeads];
  for (int head = 0; head < kHeads; ++head)
    sums[head] = Exponentials(args.count, args.scores + head * args.score_stride);
  Mix(args, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(MeanSquare);
HWY_EXPORT(Attention);

namespace {

constexpr int kPairs = kAttendRopeWidth / 2;

std::array<double, kPairs> Frequencies() {
  std::array<double, kPairs> frequencies;
  for (int i = 0; i < kPairs; ++i)
    frequencies[i] = std::pow(kAttendRopeBase, -2.0 * i / kAttendRopeWidth);
  return frequencies;
}

}  // namespace

Rotation RotationAt(int64_t position) {
  static const std::array<double, kPairs> frequencies = Frequencies();
  Rotation rotation;
  for (int i = 0; i < kPairs; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    rotation.cosine[i] = static_cast<float>(std::cos(angle));
    rotation.sine[i] = static_cast<float>(std::sin(angle));
  }
  return rotation;
}

void NormAndRotate(const float* weight, const Rotation& rotation, float* x) {
  const float mean_square = HWY_DYNAMIC_DISPATCH(MeanSquare)(x);
  const float scale = 1.0f / std::sqrt(mean_square + kAttendRmsEps);
  for (int i = 0; i < kAttendHeadWidth; ++i) x[i] = x[i] * scale * weight[i];
  for (int i = 0; i < kPairs; ++i) {
    const float a = x[i];
    const float b = x[i + kPairs];
    x[i] = a * rotation.cosine[i] - b * rotation.sine[i];
    x[i + kPairs] = b * rotation.cosine[i] + a * rotation.sine[i];
  }
}

void AttendHeads(const AttendHeadArgs& args) { HWY_DYNAMIC_DISPATCH(Attention)(args); }

}  // namespace tandem
#endif  // HWY_ONCE
