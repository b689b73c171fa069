#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/accept/accept.h"
#include "tests/gpu/on_device.h"

namespace tandem {

// One call of Accept, and the state that it updates, on the host.
struct AcceptPass {
  struct Lane {
    AcceptLane lane;                 // its views are ignored
    std::vector<int32_t> bias_ids;   // [n]
    std::vector<float> bias_values;  // [n]
    std::vector<int32_t> end_ids;    // [n]
  };

  int vocab = 0;
  int usable_vocab = 0;
  int slots = 0;
  std::vector<Lane> lanes;          // [B]
  std::vector<float> logits;        // [R, V]
  std::vector<int32_t> row_tokens;  // [R]
  std::vector<float> counts;        // [S, V]
  std::vector<uint8_t> seen;        // [S, V]
};

struct AcceptResult {
  std::vector<float> counts;  // [S, V]
  std::vector<uint8_t> seen;  // [S, V]
  std::vector<int32_t> accepted, emitted, tokens, top_ids;
  std::vector<float> logprobs, top_values, margins;
};

// `choices` is how many choices the scratch memory holds.
inline AcceptResult RunAccept(Backend& backend, const AcceptPass& pass, int choices) {
  OnDevice memory(backend);
  std::vector<AcceptLane> lanes;
  for (const AcceptPass::Lane& lane : pass.lanes) {
    lanes.push_back(lane.lane);
    lanes.back().bias_ids = memory.In(lane.bias_ids);
    lanes.back().bias_values = memory.In(lane.bias_values);
    lanes.back().end_ids = memory.In(lane.end_ids);
  }
  const size_t outputs = pass.lanes.size() * (kMaxDrafts + 1);
  const AcceptArgs args = {.vocab = pass.vocab,
                           .usable_vocab = pass.usable_vocab,
                           .logits = memory.In(pass.logits),
                           .row_tokens = memory.In(pass.row_tokens),
                           .lanes = memory.In(lanes),
                           .counts = memory.In(pass.counts),
                           .seen = memory.In(pass.seen),
                           .accepted = memory.Out<int32_t>(pass.slots),
                           .emitted = memory.Out<int32_t>(lanes.size()),
                           .tokens = memory.Out<int32_t>(outputs),
                           .logprobs = memory.Out<float>(outputs),
                           .top_ids = memory.Out<int32_t>(outputs * kMaxTopLogprobs),
                           .top_values = memory.Out<float>(outputs * kMaxTopLogprobs),
                           .margins = memory.Out<float>(outputs),
                           .scratch = memory.Out<float>(choices * AcceptScratchFloats(pass.vocab))};
  backend.Accept(args);
  return {.counts = memory.Read(args.counts),
          .seen = memory.Read(args.seen),
          .accepted = memory.Read(args.accepted),
          .emitted = memory.Read(args.emitted),
          .tokens = memory.Read(args.tokens),
          .top_ids = memory.Read(args.top_ids),
          .logprobs = memory.Read(args.logprobs),
          .top_values = memory.Read(args.top_values),
          .margins = memory.Read(args.margins)};
}

}  // namespace tandem
