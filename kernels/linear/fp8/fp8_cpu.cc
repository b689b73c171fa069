#include "kernels/linear/codes_cpu.h"
#include "kernels/linear/format_cpu.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/fp8/fp8_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/linear/codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

// Sixteen codes as floats.
HWY_INLINE F16 Fp8Codes(const uint8_t* codes) {
  const U32 d;
  const hn::Rebind<uint8_t, U32> bytes;
  F16 v;
  for (size_t i = 0; i < kParts; ++i) {
    const auto code = hn::PromoteTo(d, hn::LoadU(bytes, codes + i * kLanes));
    const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(d, 0x80u)));
    const auto rest = hn::ShiftLeft<20>(hn::And(code, hn::Set(d, 0x7fu)));
    // The exponent's bias is 7, not 127.
    v.part[i] = hn::Mul(hn::BitCast(F32(), hn::Or(sign, rest)), hn::Set(F32(), 0x1p120f));
  }
  return v;
}

void Fp8Part(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row) {
  FormatPart<CodesBlock<Fp8Codes>>(args, first_block, end_block, first_row, end_row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {
namespace {

HWY_EXPORT(Fp8Part);

struct Fp8 {
  static constexpr float kLargest = 448.0f;
  static uint8_t Encode(float value, float scale) { return QuantizeFp8(value, scale); }
  static float Decode(uint8_t code) { return DecodeE4m3(code); }
};

void DispatchPart(const LinearArgs& args, int first_block, int end_block, int first_row,
                  int end_row) {
  HWY_DYNAMIC_DISPATCH(Fp8Part)(args, first_block, end_block, first_row, end_row);
}

}  // namespace

const LinearFormatCpu& LinearFp8Cpu() {
  static constexpr LinearFormatCpu kFormat = {.packed_bytes = CodesPackedBytes,
                                              .pack = PackCodes<Fp8>,
                                              .pack_codes = PackStoredCodes,
                                              .unpack_row = UnpackCodesRow<Fp8>,
                                              .part = DispatchPart};
  return kFormat;
}

}  // namespace tandem
#endif  // HWY_ONCE
