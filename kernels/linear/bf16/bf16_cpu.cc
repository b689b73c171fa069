#include <bit>
#include <cstring>

#include "kernels/linear/format_cpu.h"
#include "kernels/linear/linear_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/bf16/bf16_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/linear/part-inl.h"

// Packed bf16: [N / 32 blocks][K inputs][16 words of 32 bits], word j holding the weight of output
// j of the block in its low half and that of output 16 + j in its high half; N is padded with
// zeros. One load gives two vectors of 16 outputs, and the weights of one input lie side by side,
// so inputs can be skipped.

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

class Bf16Block final {
 public:
  HWY_INLINE Bf16Block(const Matrix& matrix, int block)
      : words_(static_cast<const uint32_t*>(matrix.data) +
               static_cast<size_t>(block) * matrix.cols * 16) {}

  HWY_INLINE const void* Address(size_t k) const { return words_ + k * 16; }
  HWY_INLINE Halves Load(size_t k) const {
    const U32 d;
    Halves halves;
    for (size_t i = 0; i < kParts; ++i) {
      const auto word = hn::LoadU(d, words_ + k * 16 + i * kLanes);
      halves.low.part[i] = hn::BitCast(F32(), hn::ShiftLeft<16>(word));
      halves.high.part[i] = hn::BitCast(F32(), hn::And(word, hn::Set(d, 0xffff0000u)));
    }
    return halves;
  }
  HWY_INLINE Halves Scaled(const Halves& sum) const { return sum; }

 private:
  const uint32_t* words_;  // [K][16]
};

void Bf16Part(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row) {
  FormatPart<Bf16Block>(args, first_block, end_block, first_row, end_row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {
namespace {

HWY_EXPORT(Bf16Part);

size_t PackedBytes(int rows, int cols) {
  return static_cast<size_t>(LinearBlocks(rows)) * cols * kLinearBlock * sizeof(uint16_t);
}

// Index of the 16-bit half that holds weight [row, col].
size_t HalfIndex(int row, int col, int cols) {
  const int output = row % kLinearBlock;
  const size_t input = static_cast<size_t>(row / kLinearBlock) * cols + col;
  return input * kLinearBlock + static_cast<size_t>(output % 16 * 2 + output / 16);
}

void Pack(void* to, const uint16_t* bf16, int rows, int cols) {
  static_assert(std::endian::native == std::endian::little);
  uint16_t* halves = static_cast<uint16_t*>(to);
  std::memset(to, 0, PackedBytes(rows, cols));
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      halves[HalfIndex(row, col, cols)] = bf16[static_cast<size_t>(row) * cols + col];
    }
  }
}

float UnpackRow(const Matrix& matrix, int row, float* to) {
  const uint16_t* halves = static_cast<const uint16_t*>(matrix.data);
  for (int col = 0; col < matrix.cols; ++col) {
    const uint32_t bits = static_cast<uint32_t>(halves[HalfIndex(row, col, matrix.cols)]) << 16;
    to[col] = std::bit_cast<float>(bits);
  }
  return 1.0f;
}

void DispatchPart(const LinearArgs& args, int first_block, int end_block, int first_row,
                  int end_row) {
  HWY_DYNAMIC_DISPATCH(Bf16Part)(args, first_block, end_block, first_row, end_row);
}

}  // namespace

const LinearFormatCpu& LinearBf16Cpu() {
  static constexpr LinearFormatCpu kFormat = {.packed_bytes = PackedBytes,
                                              .pack = Pack,
                                              .pack_codes = nullptr,
                                              .unpack_row = UnpackRow,
                                              .part = DispatchPart};
  return kFormat;
}

}  // namespace tandem
#endif  // HWY_ONCE
