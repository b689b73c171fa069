#include "kernels/draft_mix/draft_mix_cuda.h"
#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear_cuda.h"

namespace tandem {
namespace {

constexpr int kThreads = 256;

// mixed [R, C], the first part of the scratch. Grid [R, C / kThreads, rounded up].
__global__ void __launch_bounds__(kThreads)
    DraftMixInputKernel(const __grid_constant__ DraftMixArgs args) {
  BeginOverlapped();
  const int row = blockIdx.x;
  const int i = blockIdx.y * kThreads + threadIdx.x;
  if (i >= args.width) return;
  const float z = args.z.data[row][i];
  const float previous = args.z_prev.data[row][i];
  args.scratch.data[static_cast<size_t>(row) * args.width + i] =
      z + (previous - z) * args.x_k.data[i];
}

}  // namespace

void DraftMixCuda(const DraftMixArgs& args, const DeviceCuda& device) {
  const size_t c = static_cast<size_t>(args.width);
  const size_t rows = static_cast<size_t>(args.rows);
  const size_t hidden_width = static_cast<size_t>(args.key.rows);
  const View<float> mixed = args.scratch.Sub(0, rows * c);
  const View<float> hidden = args.scratch.Sub(mixed.size, rows * hidden_width);
  LaunchOverlapped(
      device, DraftMixInputKernel,
      dim3(static_cast<unsigned>(args.rows), static_cast<unsigned>(CeilDiv(args.width, kThreads))),
      dim3(kThreads), 0, args);
  LinearCuda(WholeRows(args.rows, args.key, mixed, hidden, Epilogue::kReluSquare), device);
  LinearCuda(WholeRows(args.rows, args.value, hidden, args.x, Epilogue::kAdd), device);
}

}  // namespace tandem
