#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdint>
#include <utility>

#include "kernels/launch_cuda.cuh"
#include "kernels/linear/cublaslt_cuda.h"

namespace tandem {
namespace {

void Check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  // A lost GPU shows here as well.
  CUDA_CHECK(cudaFree(nullptr));
  std::fprintf(stderr, "CUDA backend: %s: cuBLASLt status %d\n", what, static_cast<int>(status));
  std::abort();
}

}  // namespace

struct CublasLt::Library {
  void* file = nullptr;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;

  ~Library() {
    if (handle != nullptr) destroy(handle);
    if (file != nullptr) dlclose(file);
  }

  template <class Function>
  bool Find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(file, name));
    return function != nullptr;
  }
  bool FindAll() {
    return Find(create, "cublasLtCreate") && Find(destroy, "cublasLtDestroy") &&
           Find(multiply, "cublasLtMatmul") && Find(choose, "cublasLtMatmulAlgoGetHeuristic") &&
           Find(create_product, "cublasLtMatmulDescCreate") &&
           Find(destroy_product, "cublasLtMatmulDescDestroy") &&
           Find(set_product, "cublasLtMatmulDescSetAttribute") &&
           Find(create_layout, "cublasLtMatrixLayoutCreate") &&
           Find(destroy_layout, "cublasLtMatrixLayoutDestroy") &&
           Find(create_preference, "cublasLtMatmulPreferenceCreate") &&
           Find(destroy_preference, "cublasLtMatmulPreferenceDestroy") &&
           Find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
  }
};

// In cuBLASLt's columns: sumsᵀ [outputs x rows] = (Wᵀ)ᵀ xᵀ.
struct CublasLt::Plan {
  explicit Plan(const Library& of) : library(of) {}
  ~Plan() {
    library.destroy_product(product);
    for (const cublasLtMatrixLayout_t layout : {weights, x, sums}) library.destroy_layout(layout);
  }

  const Library& library;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t weights = nullptr, x = nullptr, sums = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
};

std::unique_ptr<CublasLt> CublasLt::Load(std::string* refused) {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  auto library = std::make_unique<Library>();
  library->file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->file == nullptr) {
    *refused = name + " cannot be loaded: " + dlerror();
    return nullptr;
  }
  if (!library->FindAll()) {
    *refused = name + " lacks a function: " + dlerror();
    return nullptr;
  }
  const cublasStatus_t status = library->create(&library->handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    *refused = name + " does not start: status " + std::to_string(static_cast<int>(status));
    return nullptr;
  }
  return std::unique_ptr<CublasLt>(new CublasLt(std::move(library)));
}

CublasLt::CublasLt(std::unique_ptr<Library> library) : library_(std::move(library)) {}
CublasLt::~CublasLt() { plans_.clear(); }

std::unique_ptr<CublasLt::Plan> CublasLt::MakePlan(const GemmShape& shape) const {
  const Library& lib = *library_;
  const cudaDataType_t type = shape.e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const uint64_t rows = static_cast<uint64_t>(shape.rows);
  const uint64_t outputs = static_cast<uint64_t>(shape.outputs);
  const uint64_t inputs = static_cast<uint64_t>(shape.inputs);
  auto plan = std::make_unique<Plan>(lib);
  Check(lib.create_product(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  Check(
      lib.set_product(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
      "its transposition");
  Check(lib.create_layout(&plan->weights, type, inputs, outputs, shape.inputs), "its weights");
  Check(lib.create_layout(&plan->x, type, inputs, rows, shape.inputs), "its rows");
  Check(lib.create_layout(&plan->sums, CUDA_R_32F, outputs, rows, shape.outputs), "its sums");
  cublasLtMatmulPreference_t preference = nullptr;
  Check(lib.create_preference(&preference), "a preference");
  Check(lib.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                           sizeof(kWorkspaceBytes)),
        "its workspace");
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t status = lib.choose(lib.handle, plan->product, plan->weights, plan->x,
                                           plan->sums, plan->sums, preference, 1, &result, &found);
  lib.destroy_preference(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) return nullptr;
  plan->algorithm = result.algo;
  return plan;
}

bool CublasLt::Takes(const GemmShape& shape) {
  auto found = plans_.find(shape);
  if (found == plans_.end()) found = plans_.emplace(shape, MakePlan(shape)).first;
  return found->second != nullptr;
}

void CublasLt::Multiply(const GemmShape& shape, const void* weights, const void* x, float* sums,
                        void* workspace, CUstream_st* stream) {
  const Plan& plan = *plans_.at(shape);
  const float one = 1.0f, zero = 0.0f;
  Check(library_->multiply(library_->handle, plan.product, &one, weights, plan.weights, x, plan.x,
                           &zero, sums, plan.sums, sums, plan.sums, &plan.algorithm, workspace,
                           kWorkspaceBytes, stream),
        "a product");
}

}  // namespace tandem
