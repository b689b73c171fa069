#include "kernels/linear/codes_cpu.h"
#include "kernels/linear/format_cpu.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/int8/int8_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/linear/codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

// Sixteen codes as floats.
HWY_INLINE F16 Int8Codes(const uint8_t* codes) {
  const I32 d;
  const hn::Rebind<int8_t, I32> bytes;
  const int8_t* from = reinterpret_cast<const int8_t*>(codes);
  F16 v;
  for (size_t i = 0; i < kParts; ++i) {
    v.part[i] = hn::ConvertTo(F32(), hn::PromoteTo(d, hn::LoadU(bytes, from + i * kLanes)));
  }
  return v;
}

void Int8Part(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row) {
  FormatPart<CodesBlock<Int8Codes>>(args, first_block, end_block, first_row, end_row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {
namespace {

HWY_EXPORT(Int8Part);

struct Int8 {
  static constexpr float kLargest = 127.0f;
  static uint8_t Encode(float value, float scale) {
    return static_cast<uint8_t>(QuantizeInt(value, scale, 127));
  }
  static float Decode(uint8_t code) { return static_cast<float>(static_cast<int8_t>(code)); }
};

void DispatchPart(const LinearArgs& args, int first_block, int end_block, int first_row,
                  int end_row) {
  HWY_DYNAMIC_DISPATCH(Int8Part)(args, first_block, end_block, first_row, end_row);
}

}  // namespace

const LinearFormatCpu& LinearInt8Cpu() {
  static constexpr LinearFormatCpu kFormat = {.packed_bytes = CodesPackedBytes,
                                              .pack = PackCodes<Int8>,
                                              .pack_codes = PackStoredCodes,
                                              .unpack_row = UnpackCodesRow<Int8>,
                                              .part = DispatchPart};
  return kFormat;
}

}  // namespace tandem
#endif  // HWY_ONCE
