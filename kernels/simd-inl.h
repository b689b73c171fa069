// Sixteen floats on any instruction set, with the same bits on all of them. Included once per
// Highway target.
#if defined(TANDEM_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_SIMD_INL_H_
#undef TANDEM_KERNELS_SIMD_INL_H_
#else
#define TANDEM_KERNELS_SIMD_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x86 before AVX2 has no fused multiply-add; there it is computed lane by lane, slowly and with the
// same result.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
inline constexpr bool kFusedMultiplyAdd = false;
#else
inline constexpr bool kFusedMultiplyAdd = true;
#endif

using F32 = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
inline constexpr size_t kLanes = hn::MaxLanes(F32());
inline constexpr size_t kParts = 16 / kLanes;
inline constexpr size_t kVectorRegisters = kLanes == 16 ? 32 : 16;

struct F16 {
  hn::Vec<F32> part[kParts];
};

HWY_INLINE F16 Load16(const float* from) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = hn::LoadU(F32(), from + i * kLanes);
  return v;
}
HWY_INLINE void Store16(const F16& v, float* to) {
  for (size_t i = 0; i < kParts; ++i) hn::StoreU(v.part[i], F32(), to + i * kLanes);
}
HWY_INLINE F16 Set16(float value) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = hn::Set(F32(), value);
  return v;
}
HWY_INLINE F16 operator+(const F16& a, const F16& b) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = hn::Add(a.part[i], b.part[i]);
  return v;
}
HWY_INLINE F16 operator-(const F16& a, const F16& b) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = hn::Sub(a.part[i], b.part[i]);
  return v;
}
HWY_INLINE F16 operator*(const F16& a, const F16& b) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = hn::Mul(a.part[i], b.part[i]);
  return v;
}
HWY_INLINE F16 operator/(const F16& a, const F16& b) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = hn::Div(a.part[i], b.part[i]);
  return v;
}
HWY_INLINE F16 Max16(const F16& a, const F16& b) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = hn::Max(a.part[i], b.part[i]);
  return v;
}

HWY_INLINE hn::Vec<F32> FusedPart(hn::Vec<F32> a, hn::Vec<F32> b, hn::Vec<F32> c) {
  if constexpr (kFusedMultiplyAdd) {
    return hn::MulAdd(a, b, c);
  } else {
    HWY_ALIGN float x[kLanes], y[kLanes], z[kLanes];
    hn::Store(a, F32(), x);
    hn::Store(b, F32(), y);
    hn::Store(c, F32(), z);
    for (size_t i = 0; i < kLanes; ++i) z[i] = std::fma(x[i], y[i], z[i]);
    return hn::Load(F32(), z);
  }
}

// a b + c with one rounding.
HWY_INLINE F16 Fma16(const F16& a, const F16& b, const F16& c) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = FusedPart(a.part[i], b.part[i], c.part[i]);
  return v;
}

// The sum of the lanes in one fixed order: halves added to halves.
HWY_INLINE float Sum16(const F16& v) {
  HWY_ALIGN float lane[16];
  Store16(v, lane);
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

// e^x for x clamped to [-87, 88], relative error below 2^-22: x = n ln 2 + r, then the Taylor
// series of e^r to r^7.
HWY_INLINE hn::Vec<F32> ExpPart(hn::Vec<F32> x) {
  const F32 d;
  x = hn::Min(hn::Max(x, hn::Set(d, -87.0f)), hn::Set(d, 88.0f));
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  // ln 2 in two pieces, the first with so few bits that n times it is exact.
  auto r = FusedPart(n, hn::Set(d, -0.693359375f), x);
  r = FusedPart(n, hn::Set(d, 2.12194440e-4f), r);
  auto p = hn::Set(d, 1.0f / 5040.0f);
  p = FusedPart(p, r, hn::Set(d, 1.0f / 720.0f));
  p = FusedPart(p, r, hn::Set(d, 1.0f / 120.0f));
  p = FusedPart(p, r, hn::Set(d, 1.0f / 24.0f));
  p = FusedPart(p, r, hn::Set(d, 1.0f / 6.0f));
  p = FusedPart(p, r, hn::Set(d, 0.5f));
  p = FusedPart(p, r, hn::Set(d, 1.0f));
  p = FusedPart(p, r, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(I32(), n), hn::Set(I32(), 127)));
  return hn::Mul(p, hn::BitCast(d, exponent));
}
HWY_INLINE F16 Exp16(const F16& x) {
  F16 v;
  for (size_t i = 0; i < kParts; ++i) v.part[i] = ExpPart(x.part[i]);
  return v;
}
HWY_INLINE F16 Sigmoid16(const F16& x) {
  const F16 one = Set16(1.0f);
  return one / (one + Exp16(Set16(0.0f) - x));
}
HWY_INLINE F16 Tanh16(const F16& x) {
  const F16 one = Set16(1.0f);
  return one - Set16(2.0f) / (one + Exp16(x + x));
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
