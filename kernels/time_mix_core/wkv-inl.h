// The matrix state of one head. Included once per Highway target.
#if defined(TANDEM_KERNELS_TIME_MIX_CORE_WKV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_TIME_MIX_CORE_WKV_INL_H_
#undef TANDEM_KERNELS_TIME_MIX_CORE_WKV_INL_H_
#else
#define TANDEM_KERNELS_TIME_MIX_CORE_WKV_INL_H_
#endif

#include <cstddef>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

inline constexpr int kHead = 64;  // N

// The inputs of one head's recurrence: rows of `stride` floats, 64 of each used.
struct WkvRows {
  size_t stride = 0;
  const float* decay = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* b = nullptr;
  const float* kappa = nullptr;
  const float* r = nullptr;
};

// Values handled at once: as many vectors as the registers hold four times over.
inline constexpr int kGroup = kVectorRegisters == 32 ? 4 : 1;

// S D + u b + v k for one key: the only place where this sum is written, because replay must repeat
// its bits.
HWY_INLINE F16 UpdateKey(const F16& s, const F16& decay, const F16& u, const F16& b, const F16& v,
                         const F16& k) {
  return Fma16(v, k, Fma16(u, b, s * decay));
}

// One token for kGroup vectors of values: writes the next S to `to`, which may be `from`, returns
// in `sum` the products of the new S with the next token's kappa (kNext), and writes y.
template <bool kNext>
HWY_INLINE void WkvToken(const float* from, float* to, const WkvRows& rows, size_t row,
                         const F16* u, F16* sum, float* y) {
  const size_t at = row * rows.stride;
  const float* next = rows.kappa + (kNext ? at + rows.stride : at);
  F16 v[kGroup], out[kGroup];
  for (int g = 0; g < kGroup; ++g) {
    v[g] = Load16(rows.v + at + 16 * g);
    out[g] = Set16(0.0f);
    sum[g] = Set16(0.0f);
  }
  for (int j = 0; j < kHead; ++j) {
    const F16 decay = Set16(rows.decay[at + j]), b = Set16(rows.b[at + j]);
    const F16 k = Set16(rows.k[at + j]), r = Set16(rows.r[at + j]);
    for (int g = 0; g < kGroup; ++g) {
      const int cell = j * kHead + 16 * g;
      const F16 s = UpdateKey(Load16(from + cell), decay, u[g], b, v[g], k);
      Store16(s, to + cell);
      out[g] = Fma16(s, r, out[g]);
      if constexpr (kNext) sum[g] = Fma16(s, Set16(next[j]), sum[g]);
    }
  }
  for (int g = 0; g < kGroup; ++g) Store16(out[g], y + at + 16 * g);
}

// What a run of tokens does to the state of one head.
struct WkvRun {
  float* state = nullptr;        // [64 key, 64 value], advanced by the first `certain` tokens
  float* provisional = nullptr;  // as state, takes what the other tokens do to it
  int certain = 0;
  int count = 0;       // tokens, >= 1
  float* y = nullptr;  // out, with the rows' stride; overlaps no input
  float* u = nullptr;  // [count - certain, u_stride] receives -S kappa of the other tokens
  size_t u_stride = 0;
};

HWY_INLINE void WkvHead(const WkvRun& run, const WkvRows& rows) {
  for (int group = 0; group < kHead; group += 16 * kGroup) {
    WkvRows part = rows;
    part.v += group;
    F16 sum[kGroup], u[kGroup];
    for (int g = 0; g < kGroup; ++g) sum[g] = Set16(0.0f);
    for (int j = 0; j < kHead; ++j) {
      const F16 kappa = Set16(rows.kappa[j]);
      for (int g = 0; g < kGroup; ++g)
        sum[g] = Fma16(Load16(run.state + group + j * kHead + 16 * g), kappa, sum[g]);
    }
    for (int t = 0; t < run.count; ++t) {
      const bool drafted = t >= run.certain;
      for (int g = 0; g < kGroup; ++g) {
        u[g] = Set16(0.0f) - sum[g];
        if (drafted) Store16(u[g], run.u + (t - run.certain) * run.u_stride + group + 16 * g);
      }
      const float* from = (t > run.certain ? run.provisional : run.state) + group;
      float* to = (drafted ? run.provisional : run.state) + group;
      if (t + 1 < run.count) {
        WkvToken<true>(from, to, part, t, u, sum, run.y + group);
      } else {
        WkvToken<false>(from, to, part, t, u, sum, run.y + group);
      }
    }
  }
}

// Applies one log entry: five rows decay, k, v, u, b of `width`, of which this head's 64 start at
// the given pointer.
HWY_INLINE void ReplayHead(float* state, const float* entry, size_t width) {
  const float *decay = entry, *k = entry + width, *v = entry + 2 * width, *u = entry + 3 * width,
              *b = entry + 4 * width;
  for (int j = 0; j < kHead; ++j) {
    for (int m = 0; m < kHead; m += 16) {
      float* cell = state + j * kHead + m;
      Store16(UpdateKey(Load16(cell), Set16(decay[j]), Load16(u + m), Set16(b[j]), Load16(v + m),
                        Set16(k[j])),
              cell);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
