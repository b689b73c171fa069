#include "kernels/linear/linear_cpu.h"
#include "kernels/shift_cpu.h"
#include "kernels/time_mix_in/projections.h"
#include "kernels/time_mix_in/time_mix_in.h"

namespace tandem {

void TimeMixInCpu(const TimeMixInArgs& args, ThreadPool& pool) {
  ShiftMixCpu(ShiftMixOf(args, 6), pool);
  const TimeMixInProjections projections = ProjectionsOf(args);
  LinearManyCpu(projections.jobs.data(), projections.count, pool);
}

}  // namespace tandem
