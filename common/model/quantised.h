#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/model/tensor_info.h"
#include "kernels/linear/linear.h"

namespace tandem {

// A matrix W [N, K] that a file stores in codes and scales. With <name> that of the matrix:
//
//   Fp8   <name> of fp8_e4m3 [N, K], <name>.fp8_scale
//   Int8  <name> of int8 [N, K], <name>.fp8_scale; or <name>.int8_weight, <name>.int8_scale
//   Int6  <name>.int6_hi of uint8 [N, K/2]: the upper 4 bits of u, even columns in the low nibble;
//         <name>.int6_lo of uint8 [N, K/4]: the lower 2 bits, ascending columns from the low bits;
//         <name>.int6_scale of bf16 [N, K/64]
//
// A scale of Fp8 or Int8 is one number ([] or [1]) for the matrix, or [N].
enum class MatrixTensor {
  kPlain,
  kFp8Scale,
  kInt8Weight,
  kInt8Scale,
  kInt6High,
  kInt6Low,
  kInt6Scale,
};
inline constexpr size_t kMatrixTensors = 7;

// The name of the matrix, and which of its tensors `name` is.
std::pair<absl::string_view, MatrixTensor> SplitMatrixTensor(absl::string_view name);

// The tensors of one matrix that a file has, by MatrixTensor; null for those that it has not.
using MatrixTensors = std::array<const TensorInfo*, kMatrixTensors>;

struct QuantisedMatrix {
  WeightFormat format = WeightFormat::kBf16;  // Bf16: `codes` is a plain tensor of any type
  const TensorInfo* codes = nullptr;          // of Int6 the upper bits
  const TensorInfo* low = nullptr;            // Int6
  const TensorInfo* scale = nullptr;          // not of Bf16
};

// What the tensors make together. INVALID_ARGUMENT, naming file and tensor, where one is missing,
// too many or of a wrong type; a plain tensor without a scale may be of any type but the quantised
// ones. `found` has at least one tensor.
absl::StatusOr<QuantisedMatrix> AssembleMatrix(const MatrixTensors& found);

// INVALID_ARGUMENT where the shapes are not those of a matrix [rows, cols], or where nothing says
// whether the scales of a square one belong to its outputs or inputs: the scheme of the file's
// quant_meta does if it is <format>_perchannel.
absl::Status CheckQuantisedShapes(const QuantisedMatrix& matrix, int64_t rows, int64_t cols,
                                  absl::string_view scheme);

// INVALID_ARGUMENT where a code is not one of the format, or a scale is negative or not finite.
absl::Status CheckQuantisedValues(const QuantisedMatrix& matrix);

// True for a matrix of Fp8 that was rounded to integers before it was rounded to E4M3: no code has
// a fraction, and some are not zero.
bool HoldsIntegersOnly(const QuantisedMatrix& matrix);

// The values of a sound matrix [rows, cols] as a backend packs them. Valid as long as the file.
class StoredCodes final {
 public:
  StoredCodes(const QuantisedMatrix& matrix, int rows, int cols);
  StoredCodes(const StoredCodes&) = delete;
  StoredCodes& operator=(const StoredCodes&) = delete;
  const MatrixCodes& codes() const { return codes_; }

 private:
  void ReadScales(const TensorInfo& scale, size_t rows);
  void ReadInt6(const QuantisedMatrix& matrix, size_t rows, size_t cols);

  std::vector<uint8_t> unpacked_;       // [N, K] of Int6
  std::vector<float> scales_;           // [N]
  std::vector<uint16_t> group_scales_;  // [N, K / 64]
  MatrixCodes codes_;
};

}  // namespace tandem
