#include "kernels/head/head_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/row_norm_cuda.cuh"

namespace tandem {
namespace {

// LN_out of one row per block: of the first `tapped` blocks row i to the tap, where one is wanted,
// of the others the wanted rows to h.
__global__ void __launch_bounds__(kNormThreads) HeadNormKernel(const HeadArgs args, int tapped) {
  BeginOverlapped();
  __shared__ RowMoments moments[1];
  __shared__ float parts[2 * kNormThreads / kWarp];
  const int block = static_cast<int>(blockIdx.x);
  const int row = block < tapped ? block : args.logit_rows.data[block - tapped];
  const float* x = args.x.data + static_cast<size_t>(row) * args.width;
  float* to = args.h.data + static_cast<size_t>(block - tapped) * args.width;
  if (block < tapped) {
    if (*args.tap.rows == nullptr) return;
    to = *args.tap.rows + args.tap.offset + block * args.tap.stride;
  }
  RowMomentsOf(x, args.width, 1, moments, parts);
  for (int at = 4 * static_cast<int>(threadIdx.x); at < args.width; at += 4 * kNormThreads) {
    Store4(to + at, Normed4(Load4(x + at), moments[0], LoadWeight4(args.ln_weight.data + at),
                            LoadWeight4(args.ln_bias.data + at)));
  }
}

}  // namespace

void HeadCuda(const HeadArgs& args, const DeviceCuda& device) {
  const int tapped = args.tap.rows != nullptr ? args.rows : 0;
  const int wanted = static_cast<int>(args.logit_rows.size);
  LaunchOverlapped(device, HeadNormKernel, dim3(tapped + wanted), dim3(kNormThreads), 0, args,
                   tapped);
  LinearCuda(WholeRows(wanted, args.head, args.h, args.logits), device);
}

}  // namespace tandem
