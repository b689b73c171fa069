#include <cstdint>

#include "kernels/linear/round_rows_cuda.h"
#include "kernels/linear/sparse_cuda.h"
#include "kernels/linear/sparse_few_cuda.cuh"
#include "kernels/linear/sparse_many_cuda.cuh"

namespace tandem {
namespace {

void LaunchSparse(const DeviceCuda& device, void (*kernel)(SparseJob), int row_groups,
                  size_t shared_bytes, const SparseJob& job) {
  cudaLaunchAttribute attributes[2] = {OverlapAttribute()};
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {kSpans, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kSpans, static_cast<unsigned>(CeilDiv(job.channels, kChannelTile)),
                        static_cast<unsigned>(row_groups));
  config.blockDim = dim3(kSparseThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = device.stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, job));
}

template <WeightFormat kFormat, int kRows>
void LaunchFew(const SparseJob& job, const DeviceCuda& device) {
  constexpr auto kKernel = SparseFewKernel<kFormat, kRows>;
  constexpr size_t kShared = sizeof(FewShared<kFormat, kRows>);
  static const cudaError_t configured =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  CUDA_CHECK(configured);
  LaunchSparse(device, kKernel, CeilDiv(job.rows, kRows), kShared, job);
}

template <WeightFormat kFormat>
void LaunchMany(const SparseJob& job, const DeviceCuda& device) {
  constexpr auto kKernel = SparseManyKernel<kFormat>;
  constexpr size_t kShared = sizeof(ManyShared<kFormat>);
  static const cudaError_t configured =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  CUDA_CHECK(configured);
  LaunchSparse(device, kKernel, CeilDiv(job.rows, kManyRows), kShared, job);
}

// Rows up to which gathering the live neurons is faster than reading all.
constexpr int kMostFewRows = 8;

template <WeightFormat kFormat>
void LaunchFormat(const SparseJob& job, const DeviceCuda& device) {
  if (job.rows == 1) {
    LaunchFew<kFormat, 1>(job, device);
  } else if (job.rows == 2) {
    LaunchFew<kFormat, 2>(job, device);
  } else if (job.rows <= kMostFewRows) {
    LaunchFew<kFormat, 4>(job, device);
  } else {
    LaunchMany<kFormat>(job, device);
  }
}

}  // namespace

void SparseLinearCuda(const LinearArgs& args, const DeviceCuda& device) {
  if (args.rows == 0) return;
  const uint8_t* weight = static_cast<const uint8_t*>(args.weight.data);
  SparseJob job = {.weight = weight,
                   .x = args.x.data,
                   .y = args.y.data,
                   .x_stride = args.x_stride,
                   .y_stride = args.y_stride,
                   .rows = args.rows,
                   .channels = args.weight.rows,
                   .neurons = args.weight.cols,
                   .epilogue = args.epilogue};
  if (args.weight.rounded_inputs) {
    RoundedRows rounded;
    RoundRowsCuda(&args, 1, RowType::kFloat, /*all=*/false, device, &rounded);
    job.x = static_cast<const float*>(rounded.rows);
    job.x_stride = rounded.stride;
    job.x_scales = rounded.scales;
  }
  WithFormat(args.weight.format, [&](auto tag) {
    constexpr WeightFormat kFormat = decltype(tag)::value;
    job.scales = weight + SparseCodeBytes<kFormat>(job.channels, job.neurons);
    LaunchFormat<kFormat>(job, device);
  });
}

}  // namespace tandem
