#include <algorithm>

#include "kernels/accept/accept.h"
#include "kernels/accept/choose.h"
#include "kernels/accept/logprob.h"
#include "kernels/accept/penalty.h"
#include "kernels/accept/scratch.h"
#include "kernels/thread_pool.h"

namespace tandem {
namespace {

Choice MakeChoice(const AcceptArgs& args, const AcceptLane& lane, int row, float* scratch) {
  const size_t vocab = static_cast<size_t>(args.vocab);
  const bool ban_end = lane.generated + row < lane.sampling.min_tokens;
  return {.vocab = args.vocab,
          .usable_vocab = args.usable_vocab,
          .logits = args.logits.data + (lane.first_row + row) * vocab,
          .sampling = &lane.sampling,
          .bias_ids = lane.bias_ids,
          .bias_values = lane.bias_values,
          .banned = ban_end ? lane.end_ids : View<const int32_t>{},
          .counts = args.counts.data + lane.slot * vocab,
          .seen = args.seen.data + lane.slot * vocab,
          .position = lane.position + row,
          .scratch = scratch};
}

void Commit(const AcceptArgs& args, const AcceptLane& lane, int32_t token) {
  const size_t vocab = static_cast<size_t>(args.vocab);
  float* counts = args.counts.data + lane.slot * vocab;
  if (lane.sampling.penalty_decay != 1.0f) {
    for (size_t i = 0; i < vocab; ++i)
      counts[i] = NextCount(counts[i], lane.sampling.penalty_decay, static_cast<int>(i) == token);
  } else {
    counts[token] = NextCount(counts[token], 1.0f, true);
  }
  args.seen[lane.slot * vocab + token] |= kSeenInReply;
}

void WriteLogprobs(const AcceptArgs& args, const Choice& choice, int32_t token, size_t out) {
  const int alternatives = std::min(choice.sampling->top_logprobs, kMaxTopLogprobs);
  args.logprobs[out] = 0.0f;
  if (alternatives < 0) return;
  const float log_sum_exp = LogSumExp(choice.logits, args.vocab);
  args.logprobs[out] = Logprob(choice.logits[token], log_sum_exp);
  TopLogprobs(choice.logits, std::min(args.vocab, args.usable_vocab), log_sum_exp, alternatives,
              args.top_ids.data + out * kMaxTopLogprobs,
              args.top_values.data + out * kMaxTopLogprobs);
}

void AcceptOne(const AcceptArgs& args, int index, float* scratch) {
  const AcceptLane& lane = args.lanes[index];
  args.accepted[lane.slot] = 0;
  args.emitted[index] = 0;
  for (int row = 0; row < lane.rows; ++row) {
    const Choice choice = MakeChoice(args, lane, row, scratch);
    const Chosen chosen = Choose(choice);
    const int32_t token = chosen.token;
    const size_t out = static_cast<size_t>(index) * (kMaxDrafts + 1) + row;
    args.tokens[out] = token;
    if (args.margins.size > 0) args.margins[out] = chosen.margin;
    WriteLogprobs(args, choice, token, out);
    Commit(args, lane, token);
    args.accepted[lane.slot] = row;
    args.emitted[index] = row + 1;
    if (row + 1 == lane.rows) break;
    const int32_t draft = args.row_tokens[lane.first_row + row + 1];
    const bool kept = lane.simulated >= 0 ? row < lane.simulated && draft >= 0 : draft == token;
    if (!kept) break;
  }
}

}  // namespace

void AcceptCpu(const AcceptArgs& args, ThreadPool& pool) {
  const size_t lane_scratch = AcceptScratchFloats(args.vocab);
  const int lanes = static_cast<int>(args.lanes.size);
  const int workers = std::min(ChoicesAtOnce(args), lanes);
  pool.ParallelFor(workers, [&](int worker) {
    float* scratch = args.scratch.data + worker * lane_scratch;
    for (int i = worker; i < lanes; i += workers) AcceptOne(args, i, scratch);
  });
}

}  // namespace tandem
