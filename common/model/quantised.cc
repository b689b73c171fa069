#include "common/model/quantised.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/tensor_convert.h"
#include "common/model/weight_format.h"
#include "kernels/linear/quantize.h"

namespace tandem {
namespace {

constexpr absl::string_view kSuffixes[kMatrixTensors] = {
    "", ".fp8_scale", ".int8_weight", ".int8_scale", ".int6_hi", ".int6_lo", ".int6_scale"};

absl::Status Refuse(const TensorInfo& tensor, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(tensor.file, ": tensor ", tensor.name, ": ", problem));
}

const TensorInfo* At(const MatrixTensors& found, MatrixTensor which) {
  return found[static_cast<size_t>(which)];
}

bool AreExactly(const MatrixTensors& found, std::initializer_list<MatrixTensor> wanted) {
  size_t present = 0;
  for (const TensorInfo* tensor : found) present += tensor != nullptr ? 1 : 0;
  for (const MatrixTensor which : wanted) {
    if (At(found, which) == nullptr) return false;
  }
  return present == wanted.size();
}

absl::Status RefuseCombination(const MatrixTensors& found) {
  std::string names;
  const TensorInfo* first = nullptr;
  for (const TensorInfo* tensor : found) {
    if (tensor == nullptr) continue;
    if (first == nullptr) first = tensor;
    absl::StrAppend(&names, names.empty() ? "" : " and ", tensor->name);
  }
  return Refuse(*first, absl::StrCat("the file has ", names,
                                     " for one matrix; expected <name> alone, <name> with "
                                     "<name>.fp8_scale, .int8_weight with .int8_scale, or .int6_hi "
                                     "with .int6_lo and .int6_scale"));
}

absl::Status CheckType(const TensorInfo& tensor, DType expected) {
  if (tensor.dtype == expected) return absl::OkStatus();
  return Refuse(tensor,
                absl::StrCat("type ", DTypeName(tensor.dtype), "; expected ", DTypeName(expected)));
}

absl::StatusOr<QuantisedMatrix> AssemblePlain(const TensorInfo& plain) {
  if (plain.dtype == DType::kFp8E4m3 || plain.dtype == DType::kInt8) {
    return Refuse(plain,
                  absl::StrCat("type ", DTypeName(plain.dtype), " without a scale; expected ",
                               plain.name, ".fp8_scale beside it"));
  }
  return QuantisedMatrix{.format = WeightFormat::kBf16, .codes = &plain};
}

// The type of <name> decides, whatever the scale is called.
absl::StatusOr<QuantisedMatrix> AssembleScaled(const TensorInfo& plain, const TensorInfo& scale) {
  if (plain.dtype != DType::kFp8E4m3 && plain.dtype != DType::kInt8) {
    return Refuse(scale, absl::StrCat("a scale, but ", plain.name, " has type ",
                                      DTypeName(plain.dtype), "; expected fp8_e4m3 or int8"));
  }
  const bool fp8 = plain.dtype == DType::kFp8E4m3;
  return QuantisedMatrix{
      .format = fp8 ? WeightFormat::kFp8 : WeightFormat::kInt8, .codes = &plain, .scale = &scale};
}

absl::Status CheckShape(const TensorInfo& tensor, std::vector<int64_t> expected) {
  if (tensor.shape == expected) return absl::OkStatus();
  return Refuse(tensor, absl::StrCat("shape ", ShapeString(tensor.shape), "; expected ",
                                     ShapeString(expected)));
}

absl::Status CheckScaleShape(const QuantisedMatrix& matrix, int64_t rows, int64_t cols,
                             absl::string_view scheme) {
  const TensorInfo& scale = *matrix.scale;
  ASSIGN_OR_RETURN(const int64_t count, ElementCount(scale.shape, scale.dtype));
  if (count == 1) return absl::OkStatus();
  const std::string found =
      absl::StrCat("shape ", ShapeString(scale.shape), " for a matrix ", ShapeString({rows, cols}));
  const std::string mark = absl::StrCat(WeightFormatName(matrix.format), "_perchannel");
  if (scale.shape == std::vector<int64_t>{rows}) {
    if (rows != cols || scheme == mark) return absl::OkStatus();
    return Refuse(scale, absl::StrCat(found,
                                      ": one scale per output or one per input; expected a "
                                      "quant_meta with the scheme ",
                                      mark, ", which says per output"));
  }
  const bool inputs = scale.shape == std::vector<int64_t>{cols};
  return Refuse(scale,
                absl::StrCat(found, inputs ? ": one scale per input" : "",
                             "; expected one number, or one per output ", ShapeString({rows})));
}

// Refuses the first code that `wrong` is true for. Blocks, since hardly any is: that can be
// vectorised.
template <class Wrong>
absl::Status CheckCodes(const TensorInfo& tensor, const Wrong& wrong, absl::string_view what) {
  constexpr size_t kBlock = 4096;
  const absl::Span<const uint8_t> codes = tensor.bytes;
  for (size_t start = 0; start < codes.size(); start += kBlock) {
    const absl::Span<const uint8_t> block = codes.subspan(start, kBlock);
    uint8_t bad = 0;
    for (const uint8_t code : block) bad |= static_cast<uint8_t>(wrong(code));
    if (bad == 0) continue;
    const auto first = std::find_if(block.begin(), block.end(), wrong) - block.begin();
    return Refuse(tensor, absl::StrCat("element ", start + static_cast<size_t>(first), " of ",
                                       codes.size(), " is ", what, ", so the file is damaged"));
  }
  return absl::OkStatus();
}

std::vector<float> Floats(const TensorInfo& tensor) {
  std::vector<float> values(tensor.bytes.size() / DTypeSize(tensor.dtype));
  ConvertToFp32(tensor, /*transpose=*/false, absl::MakeSpan(values));
  return values;
}

absl::Status CheckScales(const TensorInfo& scale) {
  RETURN_IF_ERROR(CheckFinite(scale));
  const std::vector<float> values = Floats(scale);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::signbit(values[i])) {
      return Refuse(scale, absl::StrCat("element ", i, " of ", values.size(), " is ", values[i],
                                        "; expected a scale of at least 0"));
    }
  }
  return absl::OkStatus();
}

// u of the four weights from `index` on of [N, K].
std::array<uint8_t, 4> Int6Codes(const QuantisedMatrix& matrix, size_t index) {
  const unsigned first = matrix.codes->bytes[index / 2];
  const unsigned second = matrix.codes->bytes[index / 2 + 1];
  const unsigned low = matrix.low->bytes[index / 4];
  return {static_cast<uint8_t>((first & 15) << 2 | (low & 3)),
          static_cast<uint8_t>(first >> 4 << 2 | (low >> 2 & 3)),
          static_cast<uint8_t>((second & 15) << 2 | (low >> 4 & 3)),
          static_cast<uint8_t>(second >> 4 << 2 | low >> 6)};
}

// u is 1 ... 63, and the code 0 where the scale is 0.
absl::Status CheckInt6Values(const QuantisedMatrix& matrix) {
  const std::vector<float> scales = Floats(*matrix.scale);
  const size_t count = scales.size() * kInt6Group;
  for (size_t i = 0; i < count; i += 4) {
    const std::array<uint8_t, 4> codes = Int6Codes(matrix, i);
    const bool zero = scales[i / kInt6Group] == 0.0f;
    for (size_t j = 0; j < codes.size(); ++j) {
      if (codes[j] >= 1 && (!zero || codes[j] == kInt6Zero)) continue;
      return Refuse(*matrix.codes, absl::StrCat("element ", i + j, " of ", count, " is the code ",
                                                static_cast<int>(codes[j]),
                                                zero ? " in a group of scale 0; expected 32"
                                                     : "; expected 1 to 63"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::pair<absl::string_view, MatrixTensor> SplitMatrixTensor(absl::string_view name) {
  for (size_t i = 1; i < kMatrixTensors; ++i) {
    if (absl::ConsumeSuffix(&name, kSuffixes[i])) return {name, static_cast<MatrixTensor>(i)};
  }
  return {name, MatrixTensor::kPlain};
}

absl::StatusOr<QuantisedMatrix> AssembleMatrix(const MatrixTensors& found) {
  using enum MatrixTensor;
  if (AreExactly(found, {kPlain})) return AssemblePlain(*At(found, kPlain));
  if (AreExactly(found, {kPlain, kFp8Scale}))
    return AssembleScaled(*At(found, kPlain), *At(found, kFp8Scale));
  if (AreExactly(found, {kInt8Weight, kInt8Scale})) {
    const QuantisedMatrix matrix = {.format = WeightFormat::kInt8,
                                    .codes = At(found, kInt8Weight),
                                    .scale = At(found, kInt8Scale)};
    RETURN_IF_ERROR(CheckType(*matrix.codes, DType::kInt8));
    return matrix;
  }
  if (AreExactly(found, {kInt6High, kInt6Low, kInt6Scale})) {
    const QuantisedMatrix matrix = {.format = WeightFormat::kInt6,
                                    .codes = At(found, kInt6High),
                                    .low = At(found, kInt6Low),
                                    .scale = At(found, kInt6Scale)};
    RETURN_IF_ERROR(CheckType(*matrix.codes, DType::kUint8));
    RETURN_IF_ERROR(CheckType(*matrix.low, DType::kUint8));
    RETURN_IF_ERROR(CheckType(*matrix.scale, DType::kBf16));
    return matrix;
  }
  return RefuseCombination(found);
}

absl::Status CheckQuantisedShapes(const QuantisedMatrix& matrix, int64_t rows, int64_t cols,
                                  absl::string_view scheme) {
  if (matrix.format == WeightFormat::kInt6) {
    RETURN_IF_ERROR(CheckShape(*matrix.codes, {rows, cols / 2}));
    RETURN_IF_ERROR(CheckShape(*matrix.low, {rows, cols / 4}));
    return CheckShape(*matrix.scale, {rows, cols / kInt6Group});
  }
  RETURN_IF_ERROR(CheckShape(*matrix.codes, {rows, cols}));
  if (!IsLoadable(matrix.scale->dtype)) {
    return Refuse(*matrix.scale,
                  absl::StrCat("type ", DTypeName(matrix.scale->dtype), "; expected fp32"));
  }
  return CheckScaleShape(matrix, rows, cols, scheme);
}

absl::Status CheckQuantisedValues(const QuantisedMatrix& matrix) {
  RETURN_IF_ERROR(CheckScales(*matrix.scale));
  if (matrix.format == WeightFormat::kInt6) return CheckInt6Values(matrix);
  if (matrix.format == WeightFormat::kInt8) {
    return CheckCodes(
        *matrix.codes, [](uint8_t code) { return code == 0x80; },
        "-128; int8 weights lie within +-127");
  }
  return CheckCodes(
      *matrix.codes, [](uint8_t code) { return (code & 0x7f) == 0x7f; },
      "NaN; every weight must be finite");
}

bool HoldsIntegersOnly(const QuantisedMatrix& matrix) {
  if (matrix.format != WeightFormat::kFp8) return false;
  std::array<bool, 256> fraction;
  for (size_t code = 0; code < fraction.size(); ++code) {
    const float value = DecodeE4m3(static_cast<uint8_t>(code));
    fraction[code] = value != std::nearbyint(value);
  }
  bool zero = true;
  for (const uint8_t code : matrix.codes->bytes) {
    if (fraction[code]) return false;
    zero = zero && (code & 0x7f) == 0;
  }
  return !zero;
}

StoredCodes::StoredCodes(const QuantisedMatrix& matrix, int rows, int cols) {
  CHECK(matrix.format != WeightFormat::kBf16) << matrix.codes->name;
  if (matrix.format == WeightFormat::kInt6) {
    ReadInt6(matrix, static_cast<size_t>(rows), static_cast<size_t>(cols));
    codes_ = {.codes = unpacked_.data(), .group_scales = group_scales_.data()};
  } else {
    ReadScales(*matrix.scale, static_cast<size_t>(rows));
    codes_ = {.codes = matrix.codes->bytes.data(), .scales = scales_.data()};
  }
}

void StoredCodes::ReadScales(const TensorInfo& scale, size_t rows) {
  scales_ = Floats(scale);
  if (scales_.size() == 1) scales_.assign(rows, scales_[0]);
  CHECK_EQ(scales_.size(), rows) << scale.name;
}

// A group of zeros has the scale 1 in memory and may have 0 in a file.
void StoredCodes::ReadInt6(const QuantisedMatrix& matrix, size_t rows, size_t cols) {
  unpacked_.resize(rows * cols);
  for (size_t i = 0; i < unpacked_.size(); i += 4) {
    const std::array<uint8_t, 4> codes = Int6Codes(matrix, i);
    std::copy(codes.begin(), codes.end(), unpacked_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  group_scales_.resize(rows * cols / kInt6Group);
  ConvertToBf16(*matrix.scale, /*transpose=*/false, absl::MakeSpan(group_scales_));
  for (uint16_t& scale : group_scales_) {
    if (scale == 0) scale = Int6Scale(0.0f);
  }
}

}  // namespace tandem
