#include "kernels/draft_head/draft_head_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/norm_cuda.cuh"

namespace tandem {
namespace {

constexpr int kNormThreads = 512;
constexpr int kChooseThreads = 1024;
constexpr int kWarps = kChooseThreads / kWarp;
static_assert(kWarps == kWarp, "one warp compares the choices of all");

// A candidate: position i in the draft vocabulary and its logit.
struct Choice {
  float logit;
  int i;
};

// The larger logit, of equal ones the lower position. No logit is a NaN.
__device__ Choice Better(const Choice& a, const Choice& b) {
  return b.logit > a.logit || (b.logit == a.logit && b.i < a.i) ? b : a;
}

__device__ Choice WarpBest(Choice choice) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    choice = Better(choice, {__shfl_xor_sync(kAllLanes, choice.logit, step),
                             __shfl_xor_sync(kAllLanes, choice.i, step)});
  }
  return choice;
}

// o = LN_lo(x). Grid [R].
__global__ void __launch_bounds__(kNormThreads)
    DraftHeadNormKernel(const __grid_constant__ DraftHeadArgs args) {
  BeginOverlapped();
  __shared__ float parts[kWarp + 1];
  const size_t row = static_cast<size_t>(blockIdx.x) * args.width;
  const float* const x = args.x.data + row;
  const RowMoments moments = MomentsOf(x, args.width, kLayerNormEps, parts);
  for (int i = threadIdx.x; i < args.width; i += kNormThreads)
    args.o.data[row + i] = Normed(x[i], moments, args.lo_weight.data[i], args.lo_bias.data[i]);
}

// Grid [R]. Position 0 at -infinity stands for nothing chosen, which a NaN or -infinity leaves.
__global__ void __launch_bounds__(kChooseThreads)
    DraftHeadChooseKernel(const __grid_constant__ DraftHeadArgs args) {
  BeginOverlapped();
  __shared__ Choice choices[kWarps];
  constexpr int kBatch = 8;  // independent loads
  const int count = static_cast<int>(args.draft_vocab.size);
  const float* const logits = args.logits.data + static_cast<size_t>(blockIdx.x) * args.head.rows;
  Choice best = {-INFINITY, 0};
  for (int first = threadIdx.x; first < count; first += kBatch * kChooseThreads) {
    float batch[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = first + b * kChooseThreads;
      batch[b] = i < count ? logits[args.head_rows.data[i]] : -INFINITY;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (batch[b] > best.logit) best = {batch[b], first + b * kChooseThreads};
    }
  }
  best = WarpBest(best);
  if (threadIdx.x % kWarp == 0) choices[threadIdx.x / kWarp] = best;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  best = WarpBest(choices[threadIdx.x]);
  if (threadIdx.x == 0) args.tokens.data[blockIdx.x] = args.draft_vocab.data[best.i];
}

}  // namespace

void DraftHeadCuda(const DraftHeadArgs& args, const DeviceCuda& device) {
  const unsigned rows = static_cast<unsigned>(args.rows);
  LaunchOverlapped(device, DraftHeadNormKernel, dim3(rows), dim3(kNormThreads), 0, args);
  LinearCuda(WholeRows(args.rows, args.head, args.o, args.logits), device);
  LaunchOverlapped(device, DraftHeadChooseKernel, dim3(rows), dim3(kChooseThreads), 0, args);
}

}  // namespace tandem
