#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/quantize.h"
#include "kernels/linear/sparse_layout_cuda.cuh"
#include "kernels/linear/tile_cuda.cuh"

namespace tandem {
namespace {

constexpr int kPackThreads = 256;

__device__ inline int RoundTo(float quotient, float limit) {
  return static_cast<int>(fminf(fmaxf(rintf(quotient), -limit), limit));
}
template <WeightFormat kFormat>
__device__ inline uint16_t Quantize(uint16_t bf16, float scale) {
  if constexpr (kFormat == WeightFormat::kBf16) {
    return bf16;
  } else if constexpr (kFormat == WeightFormat::kFp8) {
    return __nv_cvt_float_to_fp8(Bf16ToFloat(bf16) / scale, __NV_SATFINITE, __NV_E4M3);
  } else if constexpr (kFormat == WeightFormat::kInt8) {
    return static_cast<uint8_t>(RoundTo(Bf16ToFloat(bf16) / scale, 127.0f));
  } else {
    return static_cast<uint16_t>(RoundTo(Bf16ToFloat(bf16) / scale, 31.0f) + 32);
  }
}

// scales[padded]: by row of bf16 [rows, cols], 1 beyond the rows. A warp per row.
__global__ void RowScaleKernel(const uint16_t* bf16, int rows, int cols, float limit, float* scales,
                               int padded) {
  const int row =
      (static_cast<int>(blockIdx.x * blockDim.x) + static_cast<int>(threadIdx.x)) / kWarp;
  if (row >= padded) return;
  float largest = 0.0f;
  if (row < rows) {
    const uint16_t* from = bf16 + static_cast<size_t>(row) * cols;
    for (int k = threadIdx.x % kWarp; k < cols; k += kWarp)
      largest = fmaxf(largest, fabsf(Bf16ToFloat(from[k])));
  }
  for (int step = kWarp / 2; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
  if (threadIdx.x % kWarp == 0) scales[row] = ScaleOf(largest, limit);
}

// scales[padded]: those of the rows, 1 beyond them, as RowScaleKernel has it.
__global__ void StoredScaleKernel(const float* stored, int rows, float* scales, int padded) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row < padded) scales[row] = row < rows ? stored[row] : 1.0f;
}

// A piece of a matrix and its codes, in shared memory: kRows outputs, kCols inputs.
template <int kRows, int kCols>
struct Piece {
  uint16_t codes[kRows][kCols + 2];
  float scales[kRows];
  uint16_t int6_scales[kRows];
};

// Loads and rounds the piece at (first_row, first_col) of bf16 [rows, cols]; zeros outside.
// row_scales [rows...]: of Fp8 and Int8.
template <WeightFormat kFormat, int kRows, int kCols>
__device__ void LoadPiece(Piece<kRows, kCols>* piece, const uint16_t* bf16, int rows, int cols,
                          int first_row, int first_col, const float* row_scales) {
  for (int i = threadIdx.x; i < kRows * kCols; i += kPackThreads) {
    const int r = i / kCols, c = i % kCols, row = first_row + r, col = first_col + c;
    const bool present = row < rows && col < cols;
    piece->codes[r][c] = present ? bf16[static_cast<size_t>(row) * cols + col] : 0;
  }
  __syncthreads();
  for (int r = threadIdx.x; r < kRows; r += kPackThreads) {
    if constexpr (kFormat == WeightFormat::kInt6) {
      float largest = 0.0f;
      for (int c = 0; c < kCols; ++c)
        largest = fmaxf(largest, fabsf(Bf16ToFloat(piece->codes[r][c])));
      piece->int6_scales[r] = Int6Scale(largest);
      piece->scales[r] = Bf16ToFloat(piece->int6_scales[r]);
    } else {
      piece->scales[r] = row_scales == nullptr ? 1.0f : row_scales[first_row + r];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kCols; i += kPackThreads) {
    uint16_t& code = piece->codes[i / kCols][i % kCols];
    code = Quantize<kFormat>(code, piece->scales[i / kCols]);
  }
  __syncthreads();
}

// The same from codes as they are.
template <WeightFormat kFormat, int kRows, int kCols>
__device__ void LoadPiece(Piece<kRows, kCols>* piece, const MatrixCodes& stored, int rows, int cols,
                          int first_row, int first_col, const float*) {
  constexpr uint16_t kZero = kFormat == WeightFormat::kInt6 ? kInt6Zero : 0;
  for (int i = threadIdx.x; i < kRows * kCols; i += kPackThreads) {
    const int r = i / kCols, c = i % kCols, row = first_row + r, col = first_col + c;
    const bool present = row < rows && col < cols;
    piece->codes[r][c] = present ? stored.codes[static_cast<size_t>(row) * cols + col] : kZero;
  }
  if constexpr (kFormat == WeightFormat::kInt6) {
    static_assert(kCols == kInt6Group);
    for (int r = threadIdx.x; r < kRows; r += kPackThreads) {
      const int row = first_row + r;
      const size_t group = static_cast<size_t>(row) * CeilDiv(cols, kInt6Group) +
                           static_cast<size_t>(first_col / kInt6Group);
      piece->int6_scales[r] = row < rows ? stored.group_scales[group] : Int6Scale(0.0f);
    }
  }
  __syncthreads();
}

__device__ inline uint32_t SignMagnitude(uint32_t byte) {
  const int value = static_cast<int8_t>(byte);
  return value < 0 ? 0x80u | static_cast<uint32_t>(-value) : static_cast<uint32_t>(value);
}

// Words of tile_cuda.cuh.
template <WeightFormat kFormat, class Codes>
__device__ uint32_t DenseWord(const Codes& piece, int word) {
  if constexpr (kFormat == WeightFormat::kBf16) {
    const int j = word / 128, lane = word % 128 / 4, i = word % 4;
    const uint16_t* code =
        &piece.codes[lane / 4 + 8 * (i % 2)][kMmaInputs * j + lane % 4 * 4 + i / 2 * 2];
    return code[0] | static_cast<uint32_t>(code[1]) << 16;
  } else if constexpr (kFormat == WeightFormat::kInt6) {
    if (word >= kInt6ScaleWords) {
      const int g = word - kInt6ScaleWords;
      return piece.int6_scales[g] | static_cast<uint32_t>(piece.int6_scales[g + 8]) << 16;
    }
    const bool high = word < kInt6LowWords;
    const int lane = word % kWarp, first = high ? word / kWarp : (word - kInt6LowWords) / kWarp * 2;
    uint32_t bits = 0;
    for (int group = 0; group < (high ? 1 : 2); ++group) {
      for (int i = 0; i < 8; ++i) {
        const int pair = i / 2, half = i % 2;
        const uint32_t u =
            piece.codes[lane / 4 + 8 * (pair % 2)]
                       [kMmaInputs * (first + group) + lane % 4 * 4 + pair / 2 * 2 + half];
        bits |= high ? PackInt6High(u, pair, half) : PackInt6Low(u, group, pair, half);
      }
    }
    return bits;
  } else {
    const int j = word / 64, lane = word % 64 / 2;
    const uint16_t* code = &piece.codes[lane / 4 + word % 2 * 8][kMmaInputs * j + lane % 4 * 4];
    if constexpr (kFormat == WeightFormat::kFp8) return PackFp8(code[0], code[1], code[2], code[3]);
    return SignMagnitude(code[0]) | SignMagnitude(code[1]) << 8 | SignMagnitude(code[2]) << 16 |
           SignMagnitude(code[3]) << 24;
  }
}

// to [tiles][steps][kBytes]; blockIdx.x: step, blockIdx.y: tile.
template <WeightFormat kFormat, class Source>
__global__ void PackDenseKernel(uint32_t* to, const Source source, int rows, int cols,
                                const float* row_scales) {
  using Step = DenseStep<kFormat>;
  __shared__ Piece<kTileOutputs, Step::kInputs> piece;
  const int tile = static_cast<int>(blockIdx.y), step = static_cast<int>(blockIdx.x);
  LoadPiece<kFormat>(&piece, source, rows, cols, tile * kTileOutputs, step * Step::kInputs,
                     row_scales);
  constexpr int kWords = Step::kBytes / 4;
  uint32_t* words = to + (static_cast<size_t>(tile) * gridDim.x + step) * kWords;
  for (int w = threadIdx.x; w < kWords; w += kPackThreads) words[w] = DenseWord<kFormat>(piece, w);
}

// Words of sparse_layout_cuda.cuh; piece [channels][neurons].
template <WeightFormat kFormat, class Codes>
__device__ uint32_t SparseWord(const Codes& piece, int neuron, int word) {
  if constexpr (kFormat == WeightFormat::kBf16) {
    return piece.codes[word * 2][neuron] | static_cast<uint32_t>(piece.codes[word * 2 + 1][neuron])
                                               << 16;
  } else if constexpr (kFormat == WeightFormat::kInt6) {
    const bool high = word < 16;
    const int first = high ? word : (word - 16) * 2;
    uint32_t bits = 0;
    for (int group = 0; group < (high ? 1 : 2); ++group) {
      for (int i = 0; i < 8; ++i) {
        const uint32_t u = piece.codes[(first + group) * 8 + i][neuron];
        bits |= high ? PackInt6High(u, i / 2, i % 2) : PackInt6Low(u, group, i / 2, i % 2);
      }
    }
    return bits;
  } else {
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i)
      bits |= static_cast<uint32_t>(piece.codes[word * 4 + i][neuron] & 0xff) << (8 * i);
    return kFormat == WeightFormat::kInt8 ? bits ^ 0x80808080u : bits;
  }
}

// to [F][tiles][kBytes]; int6_scales [F / 64][tiles * 128]; blockIdx.x: neuron block, blockIdx.y:
// channel tile.
template <WeightFormat kFormat, class Source>
__global__ void PackSparseKernel(uint32_t* to, uint16_t* int6_scales, const Source source,
                                 int channels, int neurons, const float* row_scales) {
  __shared__ Piece<kChannelTile, kNeuronBlock> piece;
  const int tile = static_cast<int>(blockIdx.y), block = static_cast<int>(blockIdx.x);
  LoadPiece<kFormat>(&piece, source, channels, neurons, tile * kChannelTile, block * kNeuronBlock,
                     row_scales);
  constexpr int kWords = SparseTile<kFormat>::kBytes / 4;
  for (int i = threadIdx.x; i < kNeuronBlock * kWords; i += kPackThreads) {
    const int neuron = i / kWords, word = i % kWords;
    const size_t row = static_cast<size_t>(block) * kNeuronBlock + neuron;
    to[(row * gridDim.y + tile) * kWords + word] = SparseWord<kFormat>(piece, neuron, word);
  }
  if constexpr (kFormat == WeightFormat::kInt6) {
    uint16_t* scales = int6_scales + (static_cast<size_t>(block) * gridDim.y + tile) * kChannelTile;
    for (int i = threadIdx.x; i < kChannelTile; i += kPackThreads) scales[i] = piece.int6_scales[i];
  }
}

template <WeightFormat kFormat>
size_t DenseCodeBytes(const Matrix& shape) {
  using Step = DenseStep<kFormat>;
  return static_cast<size_t>(CeilDiv(shape.rows, kTileOutputs)) *
         CeilDiv(shape.cols, Step::kInputs) * Step::kBytes;
}

// Bytes before the scales, outputs with padding, and bytes of the scales.
struct Layout {
  size_t codes;
  int padded_rows;
  size_t scales;
};
template <WeightFormat kFormat>
Layout LayoutOf(const Matrix& shape) {
  const int unit = shape.sparse_inputs ? kChannelTile : kTileOutputs;
  const int padded = CeilDiv(shape.rows, unit) * unit;
  const size_t codes = shape.sparse_inputs ? SparseCodeBytes<kFormat>(shape.rows, shape.cols)
                                           : DenseCodeBytes<kFormat>(shape);
  size_t scales = 0;
  if (DenseStep<kFormat>::kRowScale) scales = padded * sizeof(float);
  if (kFormat == WeightFormat::kInt6 && shape.sparse_inputs)
    scales = static_cast<size_t>(CeilDiv(shape.cols, kNeuronBlock)) * padded * sizeof(uint16_t);
  return {.codes = codes, .padded_rows = padded, .scales = scales};
}

void PlaceRowScales(const Matrix& shape, const uint16_t* bf16, const DeviceCuda& device,
                    float* scales, int padded) {
  const float limit = shape.format == WeightFormat::kFp8 ? 448.0f : 127.0f;
  const int blocks = CeilDiv(padded, kPackThreads / kWarp);
  Launch(device, RowScaleKernel, dim3(static_cast<unsigned>(blocks)), dim3(kPackThreads), 0, bf16,
         shape.rows, shape.cols, limit, scales, padded);
}
void PlaceRowScales(const Matrix& shape, const MatrixCodes& stored, const DeviceCuda& device,
                    float* scales, int padded) {
  const int blocks = CeilDiv(padded, kPackThreads);
  Launch(device, StoredScaleKernel, dim3(static_cast<unsigned>(blocks)), dim3(kPackThreads), 0,
         stored.scales, shape.rows, scales, padded);
}

template <WeightFormat kFormat, class Source>
void PackAs(void* to, const Matrix& shape, const Source& source, const DeviceCuda& device) {
  const Layout layout = LayoutOf<kFormat>(shape);
  uint8_t* after = static_cast<uint8_t*>(to) + layout.codes;
  float* row_scales = nullptr;
  if constexpr (DenseStep<kFormat>::kRowScale) {
    row_scales = reinterpret_cast<float*>(after);
    PlaceRowScales(shape, source, device, row_scales, layout.padded_rows);
  }
  uint32_t* words = static_cast<uint32_t*>(to);
  if (shape.sparse_inputs) {
    const dim3 grid(static_cast<unsigned>(CeilDiv(shape.cols, kNeuronBlock)),
                    static_cast<unsigned>(layout.padded_rows / kChannelTile));
    Launch(device, PackSparseKernel<kFormat, Source>, grid, dim3(kPackThreads), 0, words,
           reinterpret_cast<uint16_t*>(after), source, shape.rows, shape.cols,
           static_cast<const float*>(row_scales));
  } else {
    const dim3 grid(static_cast<unsigned>(CeilDiv(shape.cols, DenseStep<kFormat>::kInputs)),
                    static_cast<unsigned>(layout.padded_rows / kTileOutputs));
    Launch(device, PackDenseKernel<kFormat, Source>, grid, dim3(kPackThreads), 0, words, source,
           shape.rows, shape.cols, static_cast<const float*>(row_scales));
  }
}

}  // namespace

size_t LinearPackedBytesCuda(const Matrix& shape) {
  size_t bytes = 0;
  WithFormat(shape.format, [&](auto tag) {
    const Layout layout = LayoutOf<decltype(tag)::value>(shape);
    bytes = layout.codes + layout.scales;
  });
  return bytes;
}

void LinearPackCuda(void* to, const Matrix& shape, const uint16_t* bf16, const DeviceCuda& device) {
  WithFormat(shape.format,
             [&](auto tag) { PackAs<decltype(tag)::value>(to, shape, bf16, device); });
}

void LinearPackCodesCuda(void* to, const Matrix& shape, const MatrixCodes& codes,
                         const DeviceCuda& device) {
  WithFormat(shape.format, [&](auto tag) {
    constexpr WeightFormat kFormat = decltype(tag)::value;
    if constexpr (kFormat != WeightFormat::kBf16) PackAs<kFormat>(to, shape, codes, device);
  });
}

}  // namespace tandem
