#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/channel_mix_value/channel_mix_value.h"

namespace tandem {

// Inputs of ffn.value, summed over ops.
struct LiveInputs {
  double neurons = 0;
  double live = 0;         // not zero in at least one row of their pass
  double live_in_row = 0;  // not zero in a row, averaged over the rows of their pass

  double share() const { return neurons > 0 ? live / neurons : 0.0; }
  double share_of_row() const { return neurons > 0 ? live_in_row / neurons : 0.0; }
  void Add(const LiveInputs& more) {
    neurons += more.neurons;
    live += more.live;
    live_in_row += more.live_in_row;
  }
};

// Of one op, after those that were enqueued before it.
inline LiveInputs CountLive(Backend& backend, const ChannelMixValueArgs& args) {
  std::vector<float> act(args.act.size);  // [T, F]
  backend.CopyOut(act.data(), args.act.data, act.size() * sizeof(float));
  backend.Wait();
  const size_t neurons = act.size() / static_cast<size_t>(args.rows);
  std::vector<uint8_t> any(neurons, 0);
  double in_rows = 0;
  for (size_t row = 0; row < act.size(); row += neurons) {
    for (size_t n = 0; n < neurons; ++n) {
      const bool live = act[row + n] != 0.0f;
      any[n] |= static_cast<uint8_t>(live);
      in_rows += live;
    }
  }
  LiveInputs counted = {.neurons = static_cast<double>(neurons),
                        .live_in_row = in_rows / args.rows};
  for (const uint8_t live : any) counted.live += live;
  return counted;
}

}  // namespace tandem
