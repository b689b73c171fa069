#include "kernels/channel_mix_key/channel_mix_key.h"
#include "kernels/time_mix_in/time_mix_in.h"
#include "tests/gpu/channel_mix_key_rig.h"
#include "tests/gpu/shift_rig.h"
#include "tests/gpu/state_op_tests.h"

namespace tandem {
namespace {

using ShiftOps = AtAllWidths<TimeMixInRig, ChannelMixKeyRig>;
INSTANTIATE_TYPED_TEST_SUITE_P(Shift, StateOpCudaTest, ShiftOps, WidthNames);

}  // namespace
}  // namespace tandem
