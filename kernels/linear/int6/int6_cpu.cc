#include <algorithm>
#include <cstring>

#include "kernels/linear/format_cpu.h"
#include "kernels/linear/int6/int6_layout.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/int6/int6_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/linear/part-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

class Int6Block final {
 public:
  HWY_INLINE Int6Block(const Matrix& matrix, int block) {
    const uint8_t* bytes = static_cast<const uint8_t*>(matrix.data);
    const size_t pairs = Int6PairsBytes(matrix.cols);
    const size_t index = static_cast<size_t>(block);
    pairs_ = bytes + pairs * index;
    scales_ = reinterpret_cast<const uint32_t*>(
                  bytes + pairs * static_cast<size_t>(LinearBlocks(matrix.rows))) +
              index * Int6Groups(matrix.cols) * 16;
  }

  HWY_INLINE const void* Address(size_t k) const { return pairs_ + k / 2 * kInt6PairBytes; }
  HWY_INLINE Halves Load(size_t k) const {
    const U32 d;
    const hn::Rebind<uint8_t, U32> bytes;
    const uint8_t* pair = pairs_ + k / 2 * kInt6PairBytes;
    const uint8_t* upper = pair + k % 2 * 16;
    const uint32_t* scales = scales_ + k / kInt6Group * 16;
    const int shift = static_cast<int>(k % 2) * 4;
    const auto four_bits = hn::Set(d, 15u), two_bits = hn::Set(d, 3u);
    Halves halves;
    for (size_t i = 0; i < kParts; ++i) {
      const auto high = hn::PromoteTo(d, hn::LoadU(bytes, upper + i * kLanes));
      const auto pairs = hn::PromoteTo(d, hn::LoadU(bytes, pair + 32 + i * kLanes));
      const auto low = hn::ShiftRightSame(pairs, shift);
      const auto scale = hn::LoadU(d, scales + i * kLanes);
      const auto first = hn::Or(hn::ShiftLeft<2>(hn::And(high, four_bits)), hn::And(low, two_bits));
      const auto second = hn::Or(hn::ShiftLeft<2>(hn::ShiftRight<4>(high)),
                                 hn::And(hn::ShiftRight<2>(low), two_bits));
      halves.low.part[i] = Weight(first, hn::ShiftLeft<16>(scale));
      halves.high.part[i] = Weight(second, hn::And(scale, hn::Set(d, 0xffff0000u)));
    }
    return halves;
  }
  HWY_INLINE Halves Scaled(const Halves& sum) const { return sum; }

 private:
  HWY_INLINE static hn::Vec<F32> Weight(hn::Vec<U32> u, hn::Vec<U32> scale_bits) {
    const auto code = hn::Sub(hn::BitCast(I32(), u), hn::Set(I32(), kInt6Zero));
    return hn::Mul(hn::ConvertTo(F32(), code), hn::BitCast(F32(), scale_bits));
  }

  const uint8_t* pairs_;    // [ceil(K / 2)][48]
  const uint32_t* scales_;  // [ceil(K / 64)][16]
};

void Int6Part(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row) {
  FormatPart<Int6Block>(args, first_block, end_block, first_row, end_row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {
namespace {

HWY_EXPORT(Int6Part);

size_t PackedBytes(int rows, int cols) {
  const size_t block = Int6PairsBytes(cols) + Int6Groups(cols) * 16 * sizeof(uint32_t);
  return static_cast<size_t>(LinearBlocks(rows)) * block;
}

// Where a weight lies: its scale, and the bytes and shifts of its bits.
struct Place {
  size_t upper, lower, scale;
  int upper_shift, lower_shift;
};
Place PlaceOf(int rows, int cols, int row, int col) {
  const size_t block = static_cast<size_t>(row / kLinearBlock);
  const size_t lane = static_cast<size_t>(row % 16);
  const int half = row % kLinearBlock / 16, second = col % 2;
  const size_t pair = block * Int6PairsBytes(cols) + static_cast<size_t>(col / 2) * kInt6PairBytes;
  const size_t scales = static_cast<size_t>(LinearBlocks(rows)) * Int6PairsBytes(cols);
  const size_t group = block * Int6Groups(cols) + static_cast<size_t>(col / kInt6Group);
  return {.upper = pair + static_cast<size_t>(second) * 16 + lane,
          .lower = pair + 32 + lane,
          .scale = scales + (group * 16 + lane) * 4 + static_cast<size_t>(half) * 2,
          .upper_shift = half * 4,
          .lower_shift = second * 4 + half * 2};
}

void PutWeight(uint8_t* bytes, const Place& place, int u, uint16_t scale) {
  std::memcpy(bytes + place.scale, &scale, sizeof(scale));
  bytes[place.upper] |= static_cast<uint8_t>((u >> 2) << place.upper_shift);
  bytes[place.lower] |= static_cast<uint8_t>((u & 3) << place.lower_shift);
}

void Pack(void* to, const uint16_t* bf16, int rows, int cols) {
  uint8_t* bytes = static_cast<uint8_t*>(to);
  std::memset(to, 0, PackedBytes(rows, cols));
  for (int row = 0; row < rows; ++row) {
    const uint16_t* from = bf16 + static_cast<size_t>(row) * cols;
    uint16_t scale = 0;
    for (int col = 0; col < cols; ++col) {
      if (col % kInt6Group == 0)
        scale = Int6Scale(LargestMagnitude(from + col, std::min(kInt6Group, cols - col)));
      const int u = QuantizeInt(Bf16ToFloat(from[col]), Bf16ToFloat(scale), 31) + kInt6Zero;
      PutWeight(bytes, PlaceOf(rows, cols, row, col), u, scale);
    }
  }
}

void PackStored(void* to, const MatrixCodes& stored, int rows, int cols) {
  uint8_t* bytes = static_cast<uint8_t*>(to);
  std::memset(to, 0, PackedBytes(rows, cols));
  for (int row = 0; row < rows; ++row) {
    const uint8_t* codes = stored.codes + static_cast<size_t>(row) * cols;
    const uint16_t* scales = stored.group_scales + static_cast<size_t>(row) * Int6Groups(cols);
    for (int col = 0; col < cols; ++col)
      PutWeight(bytes, PlaceOf(rows, cols, row, col), codes[col], scales[col / kInt6Group]);
  }
}

float UnpackRow(const Matrix& matrix, int row, float* to) {
  const uint8_t* bytes = static_cast<const uint8_t*>(matrix.data);
  for (int col = 0; col < matrix.cols; ++col) {
    const Place place = PlaceOf(matrix.rows, matrix.cols, row, col);
    const int upper = bytes[place.upper] >> place.upper_shift & 15;
    const int lower = bytes[place.lower] >> place.lower_shift & 3;
    uint16_t scale;
    std::memcpy(&scale, bytes + place.scale, sizeof(scale));
    to[col] = static_cast<float>((upper << 2 | lower) - kInt6Zero) * Bf16ToFloat(scale);
  }
  return 1.0f;
}

void DispatchPart(const LinearArgs& args, int first_block, int end_block, int first_row,
                  int end_row) {
  HWY_DYNAMIC_DISPATCH(Int6Part)(args, first_block, end_block, first_row, end_row);
}

}  // namespace

const LinearFormatCpu& LinearInt6Cpu() {
  static constexpr LinearFormatCpu kFormat = {.packed_bytes = PackedBytes,
                                              .pack = Pack,
                                              .pack_codes = PackStored,
                                              .unpack_row = UnpackRow,
                                              .part = DispatchPart};
  return kFormat;
}

}  // namespace tandem
#endif  // HWY_ONCE
