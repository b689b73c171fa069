#include "kernels/draft_fuse/draft_fuse_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/norm_cuda.cuh"

namespace tandem {
namespace {

constexpr int kThreads = 512;
constexpr int kFeatures = 3;  // h, m1, m2

// One LayerNorm of one row.
struct NormJob {
  const float* x;       // [C]
  const float* weight;  // [C]
  const float* bias;    // [C]
  float* to;            // [C]
};

// Depth 1: parts 0 .. 2 are the features, part 3 the token. Deeper: part 0 is the drafter's own
// output, part 1 the token. Scratch: normed features [R, 3C], then the two inputs of proj [R, 2C].
__device__ NormJob JobOf(const DraftFuseArgs& args, int row, int part) {
  const size_t c = args.width;
  float* const normed = args.scratch.data + row * kFeatures * c;
  float* const joined = args.scratch.data + args.rows * kFeatures * c + row * 2 * c;
  const bool from_features = args.features.data != nullptr;
  if (part == (from_features ? kFeatures : 1)) {
    return {args.embedding.data + args.tokens.data[row] * c, args.le_weight.data, args.le_bias.data,
            joined + c};
  }
  if (!from_features)
    return {args.previous.data + row * c, args.lhd_weight.data, args.lhd_bias.data, joined};
  const float* const x = args.features.data[row] + part * c;
  float* const to = normed + part * c;
  if (part == 0) return {x, args.lh_weight.data, args.lh_bias.data, to};
  if (part == 1) return {x, args.lf0_weight.data, args.lf0_bias.data, to};
  return {x, args.lf1_weight.data, args.lf1_bias.data, to};
}

// Grid [R, parts].
__global__ void __launch_bounds__(kThreads)
    DraftFuseInputsKernel(const __grid_constant__ DraftFuseArgs args) {
  BeginOverlapped();
  __shared__ float parts[kWarp + 1];
  const NormJob job = JobOf(args, blockIdx.x, blockIdx.y);
  const RowMoments moments = MomentsOf(job.x, args.width, kLayerNormEps, parts);
  for (int i = threadIdx.x; i < args.width; i += kThreads)
    job.to[i] = Normed(job.x[i], moments, job.weight[i], job.bias[i]);
}

// x = LN_ln0(x + dep). Grid [R].
__global__ void __launch_bounds__(kThreads)
    DraftFuseDepthKernel(const __grid_constant__ DraftFuseArgs args) {
  BeginOverlapped();
  __shared__ float parts[kWarp + 1];
  float* const x = args.x.data + static_cast<size_t>(blockIdx.x) * args.width;
  // MomentsOf reads a value in the thread that wrote it.
  for (int i = threadIdx.x; i < args.width; i += kThreads) x[i] += args.depth.data[i];
  const RowMoments moments = MomentsOf(x, args.width, kLayerNormEps, parts);
  for (int i = threadIdx.x; i < args.width; i += kThreads)
    x[i] = Normed(x[i], moments, args.ln0_weight.data[i], args.ln0_bias.data[i]);
}

}  // namespace

void DraftFuseCuda(const DraftFuseArgs& args, const DeviceCuda& device) {
  const size_t c = static_cast<size_t>(args.width);
  const unsigned rows = static_cast<unsigned>(args.rows);
  const bool from_features = args.features.data != nullptr;
  const View<float> normed = args.scratch.Sub(0, rows * kFeatures * c);
  const View<float> joined = args.scratch.Sub(normed.size, rows * 2 * c);
  LaunchOverlapped(device, DraftFuseInputsKernel, dim3(rows, from_features ? kFeatures + 1 : 2),
                   dim3(kThreads), 0, args);
  if (from_features) {
    LinearCuda({.rows = args.rows,
                .weight = args.fproj,
                .x = normed,
                .x_stride = kFeatures * c,
                .y = joined,
                .y_stride = 2 * c},
               device);
  }
  LinearCuda(WholeRows(args.rows, args.proj, joined, args.x), device);
  LaunchOverlapped(device, DraftFuseDepthKernel, dim3(rows), dim3(kThreads), 0, args);
}

}  // namespace tandem
