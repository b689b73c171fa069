#include "kernels/linear/linear_cuda.h"
#include "kernels/shift_cuda.h"
#include "kernels/time_mix_in/time_mix_in_cuda.h"

namespace tandem {

void TimeMixInCuda(const TimeMixInArgs& args, const DeviceCuda& device) {
  ShiftMixCuda({.rows = args.rows,
                .width = args.width,
                .mixes = 6,
                .lanes = args.lanes,
                .shift = args.shift,
                .x = args.x,
                .ln_weight = args.ln_weight,
                .ln_bias = args.ln_bias,
                .mix = args.mix,
                .h = args.h,
                .mixed = args.mixed},
               device);
  const size_t plane = static_cast<size_t>(args.rows) * args.width;
  const auto job = [&](int mix, const Matrix& weight, const View<float>& y, Epilogue epilogue) {
    return LinearArgs{.rows = args.rows,
                      .weight = weight,
                      .x = args.mixed.Sub(mix * plane, plane),
                      .x_stride = static_cast<size_t>(args.width),
                      .y = y,
                      .y_stride = static_cast<size_t>(weight.rows),
                      .epilogue = epilogue};
  };
  const LinearArgs jobs[] = {job(0, args.receptance, args.r, Epilogue::kStore),
                             job(2, args.key, args.k, Epilogue::kStore),
                             job(3, args.value, args.v, Epilogue::kStore),
                             job(1, args.w1, args.w_low, Epilogue::kTanh),
                             job(4, args.a1, args.a_low, Epilogue::kStore),
                             job(5, args.g1, args.g_low, Epilogue::kSigmoid),
                             job(3, args.v1, args.v_low, Epilogue::kStore)};
  LinearManyCuda(jobs, args.v1.rows > 0 ? 7 : 6, device);
}

}  // namespace tandem
