#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/model/tiny_model.h"

namespace tandem {

// How a test file stores a matrix.
enum class Stored {
  kFp8,           // one scale per output
  kFp8PerTensor,  // one scale, of the shape []
  kFp8Integers,   // the same, rounded to integers first
  kInt8,          // <name> of int8 with <name>.fp8_scale, one scale per output
  kInt8PerTensor,
  kInt8Weight,  // <name>.int8_weight and .int8_scale, one scale per output
  kInt6,
};

// The names of the six large matrices of all layers.
std::vector<std::string> MatrixNames(const TinyShape& shape = {});

// TinyModel(bf16) whose large matrices have rows of different sizes, one row of zeros and one group
// of zeros.
std::vector<TestTensor> UnevenModel(const TinyShape& shape = {});

// A bf16 matrix [N, K] as the tensors of a quantised one, rounded in double by the definition of
// the format.
std::vector<TestTensor> Quantise(const TestTensor& matrix, Stored stored);

// Puts the quantised tensors in the place of the matrix.
void QuantiseIn(std::vector<TestTensor>& tensors, const std::string& name, Stored stored);
void QuantiseAll(std::vector<TestTensor>& tensors, Stored stored);

}  // namespace tandem
