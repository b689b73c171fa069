#pragma once

#include <array>
#include <cstddef>

#include "kernels/linear/linear.h"
#include "kernels/time_mix_in/time_mix_in.h"

namespace tandem {

// The projections of the mixed rows, independent of each other: the first `count` of `jobs`.
struct TimeMixInProjections {
  std::array<LinearArgs, 7> jobs;
  int count = 0;
};

inline TimeMixInProjections ProjectionsOf(const TimeMixInArgs& args) {
  const size_t plane = static_cast<size_t>(args.rows) * args.width;
  const auto job = [&](int mix, const Matrix& weight, const View<float>& y,
                       Epilogue epilogue = Epilogue::kStore) {
    return WholeRows(args.rows, weight, args.mixed.Sub(mix * plane, plane), y, epilogue);
  };
  return {.jobs = {job(0, args.receptance, args.r), job(2, args.key, args.k),
                   job(3, args.value, args.v), job(1, args.w1, args.w_low, Epilogue::kTanh),
                   job(4, args.a1, args.a_low), job(5, args.g1, args.g_low, Epilogue::kSigmoid),
                   job(3, args.v1, args.v_low)},
          .count = args.v1.rows > 0 ? 7 : 6};
}

}  // namespace tandem
