#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

struct CUstream_st;

namespace tandem {

// sums [rows, outputs] = x [rows, inputs] Wᵀ, W [outputs, inputs]. outputs and inputs are multiples
// of 16; x and W are both bf16, or both E4M3.
struct GemmShape {
  int rows = 0;
  int outputs = 0;
  int inputs = 0;
  bool e4m3 = false;

  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// cuBLASLt, looked for when it is wanted: it is larger than all of tandem, and nothing else needs
// it. Used with the device's context current.
class CublasLt final {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  // Null where it cannot be used, with a sentence for the operator in `refused`.
  static std::unique_ptr<CublasLt> Load(std::string* refused);
  ~CublasLt();  // nothing may still run on the streams
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Whether there is an algorithm for a shape; it is chosen the first time, and kept.
  bool Takes(const GemmShape& shape);
  // Enqueues the product of a shape that is taken; workspace [kWorkspaceBytes].
  void Multiply(const GemmShape& shape, const void* weights, const void* x, float* sums,
                void* workspace, CUstream_st* stream);

 private:
  struct Library;
  struct Plan;
  explicit CublasLt(std::unique_ptr<Library> library);
  std::unique_ptr<Plan> MakePlan(const GemmShape& shape) const;

  std::unique_ptr<Library> library_;
  std::map<GemmShape, std::unique_ptr<Plan>> plans_;  // null: no algorithm
};

}  // namespace tandem
