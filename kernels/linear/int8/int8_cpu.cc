#include <cstring>

#include "kernels/linear/format_cpu.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/int8/int8_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/linear/part-inl.h"

// Packed: [N / 32 blocks][K inputs][32 outputs] codes of a byte, then [N / 32 blocks][32] scales of
// fp32; N is padded with zeros.

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

class Int8Block final {
 public:
  HWY_INLINE Int8Block(const Matrix& matrix, int block)
      : codes_(static_cast<const uint8_t*>(matrix.data) +
               static_cast<size_t>(block) * matrix.cols * kLinearBlock),
        matrix_(matrix),
        block_(block) {}

  HWY_INLINE const void* Address(size_t k) const { return codes_ + k * kLinearBlock; }
  HWY_INLINE Halves Load(size_t k) const {
    const uint8_t* codes = codes_ + k * kLinearBlock;
    return {Int8Codes(codes), Int8Codes(codes + 16)};
  }
  HWY_INLINE Halves Scaled(const Halves& sum) const {
    const size_t all = static_cast<size_t>(LinearBlocks(matrix_.rows)) * matrix_.cols;
    const uint8_t* scales = static_cast<const uint8_t*>(matrix_.data) + all * kLinearBlock;
    const float* scale = reinterpret_cast<const float*>(scales) + block_ * kLinearBlock;
    return {sum.low * Load16(scale), sum.high * Load16(scale + 16)};
  }

 private:
  const uint8_t* codes_;  // [K][32]
  const Matrix& matrix_;
  int block_;
};

void Int8Part(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row) {
  FormatPart<Int8Block>(args, first_block, end_block, first_row, end_row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {
namespace {

HWY_EXPORT(Int8Part);

size_t CodeBytes(int rows, int cols) {
  return static_cast<size_t>(LinearBlocks(rows)) * cols * kLinearBlock;
}

size_t PackedBytes(int rows, int cols) {
  return CodeBytes(rows, cols) + LinearBlocks(rows) * kLinearBlock * sizeof(float);
}

size_t CodeIndex(int row, int col, int cols) {
  return (static_cast<size_t>(row / kLinearBlock) * cols + col) * kLinearBlock + row % kLinearBlock;
}

void Pack(void* to, const uint16_t* bf16, int rows, int cols) {
  uint8_t* codes = static_cast<uint8_t*>(to);
  std::memset(to, 0, PackedBytes(rows, cols));
  float* scales = reinterpret_cast<float*>(codes + CodeBytes(rows, cols));
  for (int row = 0; row < rows; ++row) {
    const uint16_t* from = bf16 + static_cast<size_t>(row) * cols;
    scales[row] = ScaleOf(LargestMagnitude(from, cols), 127.0f);
    for (int col = 0; col < cols; ++col) {
      codes[CodeIndex(row, col, cols)] =
          static_cast<uint8_t>(QuantizeInt(Bf16ToFloat(from[col]), scales[row], 127));
    }
  }
}

float UnpackRow(const Matrix& matrix, int row, float* to) {
  const uint8_t* codes = static_cast<const uint8_t*>(matrix.data);
  for (int col = 0; col < matrix.cols; ++col)
    to[col] = static_cast<float>(static_cast<int8_t>(codes[CodeIndex(row, col, matrix.cols)]));
  return reinterpret_cast<const float*>(codes + CodeBytes(matrix.rows, matrix.cols))[row];
}

void DispatchPart(const LinearArgs& args, int first_block, int end_block, int first_row,
                  int end_row) {
  HWY_DYNAMIC_DISPATCH(Int8Part)(args, first_block, end_block, first_row, end_row);
}

}  // namespace

const LinearFormatCpu& LinearInt8Cpu() {
  static constexpr LinearFormatCpu kFormat = {
      .packed_bytes = PackedBytes, .pack = Pack, .unpack_row = UnpackRow, .part = DispatchPart};
  return kFormat;
}

}  // namespace tandem
#endif  // HWY_ONCE
