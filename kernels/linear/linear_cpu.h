#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear.h"

namespace tandem {

class ThreadPool;

// Outputs per block of the CPU layouts: the vector lanes of a block run over its outputs.
inline constexpr int kLinearBlock = 32;

inline int LinearBlocks(int rows) { return (rows + kLinearBlock - 1) / kLinearBlock; }

// The CPU layout of a matrix; see kernels/linear/<format>/ for its bytes.
size_t LinearPackedBytes(WeightFormat format, int rows, int cols);
void LinearPack(void* to, WeightFormat format, const uint16_t* bf16, int rows, int cols);
void LinearPackCodes(void* to, WeightFormat format, const MatrixCodes& codes, int rows, int cols);
// Row `row` of a packed matrix: what its sums run over into to[cols]; the result is what a finished
// sum is multiplied by, 1 for formats without a scale per output.
float LinearUnpackRow(const Matrix& matrix, int row, float* to);

// A part of a linear op on the calling thread: outputs [32 * first_block, 32 * end_block) of rows
// [first_row, end_row).
void LinearPart(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row);

// Several independent linear ops in one fork and join.
void LinearManyCpu(const LinearArgs* jobs, int count, ThreadPool& pool);

// The meaning, one multiply-add at a time with std::fma: the oracle of tests.
void LinearReference(const LinearArgs& args);

}  // namespace tandem
