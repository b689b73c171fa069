#include "kernels/linear/linear_cuda.h"
#include "kernels/shift_cuda.h"
#include "kernels/time_mix_in/projections.h"
#include "kernels/time_mix_in/time_mix_in_cuda.h"

namespace tandem {

void TimeMixInCuda(const TimeMixInArgs& args, const DeviceCuda& device) {
  ShiftMixCuda(ShiftMixOf(args, 6), device);
  const TimeMixInProjections projections = ProjectionsOf(args);
  LinearManyCuda(projections.jobs.data(), projections.count, device);
}

}  // namespace tandem
