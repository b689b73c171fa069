#include "kernels/time_mix_core/time_mix_core.h"
#include "tests/gpu/state_op_tests.h"
#include "tests/gpu/time_mix_core_rig.h"

namespace tandem {
namespace {

using CoreOps = AtAllWidths<TimeMixCoreRig, FirstLayerCoreRig>;
INSTANTIATE_TYPED_TEST_SUITE_P(TimeMixCore, StateOpCudaTest, CoreOps, WidthNames);

}  // namespace
}  // namespace tandem
