#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lanes.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// Most alternatives that a logprob entry can list.
inline constexpr int kMaxTopLogprobs = 20;

// Bits of AcceptArgs::seen.
inline constexpr uint8_t kSeenInPrompt = 1;
inline constexpr uint8_t kSeenInReply = 2;

// Ids that one block of a device works on.
inline constexpr int kAcceptSlice = 2048;

// Floats of AcceptArgs::scratch that one choice among V ids needs.
constexpr size_t AcceptScratchFloats(int vocab) {
  constexpr size_t kRecord = 52;  // what a slice hands on
  return (static_cast<size_t>(vocab) + kAcceptSlice - 1) / kAcceptSlice *
         (2 * kAcceptSlice + kRecord);
}

enum class SamplingOrder : int32_t {
  kTemperatureFirst = 0,  // penalties, temperature, top_k, top_p, min_p (vLLM, OpenAI)
  kNucleusFirst = 1,      // penalties, top_p and top_k on softmax(l), then p^(1/T) (BlinkDL)
};

// How one sequence chooses its tokens. Plain data; ranges are checked at the API's edge.
struct Sampling {
  float temperature = 1.0f;        // >= 0; 0 = greedy: the lowest id of the largest logit
  int32_t top_k = 0;               // 0 = off
  float top_p = 1.0f;              // (0, 1]; 1 = off
  float min_p = 0.0f;              // [0, 1); 0 = off
  float presence_penalty = 0.0f;   // subtracted once from every token of this reply
  float frequency_penalty = 0.0f;  // times the decayed count of the token in this reply
  float repetition_penalty =
      1.0f;  // > 0; divides positive and multiplies negative logits of prompt and reply tokens
  float penalty_decay = 1.0f;  // (0, 1]; every count is multiplied by it per generated token
  uint64_t seed = 0;           // noise is Philox(seed, absolute position, token id)
  SamplingOrder order = SamplingOrder::kTemperatureFirst;
  int32_t min_tokens = 0;  // while fewer tokens of the reply exist, the end ids are banned
  int32_t top_logprobs =
      -1;  // -1 none, 0 the chosen token's only, n <= kMaxTopLogprobs alternatives too
};

// One lane of the pass. rows = 0: the lane chooses nothing (its prompt goes on). Otherwise the lane
// has `rows` consecutive logit rows from first_row on: that of its last certain token, then those
// of its drafts.
struct AcceptLane {
  int32_t slot = 0;
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t generated = 0;  // tokens of this reply that exist before the first choice
  int64_t position = 0;   // absolute position of the token that the first row chooses
  // Simulates acceptance, for speed runs with weights that nobody trained: >= 0 keeps so many of
  // the drafts whatever was chosen, up to the first that is none (a token below 0). -1: those that
  // equal the choices.
  // With penalties, what rows after a draft that was not chosen count is unspecified.
  int32_t simulated = -1;
  Sampling sampling;
  View<const int32_t> bias_ids;   // [n] distinct, < V
  View<const float> bias_values;  // [n] added to the logit before the penalties
  View<const int32_t> end_ids;    // [n] ids banned while generated + row < min_tokens
};

// Chooses a token at every row from the base model's logits and keeps drafts while they equal the
// choice: with s_r the choice at row r and d_(r+1) the token consumed by row r+1, a = number of
// leading r with s_r = d_(r+1); the lane emits s_0 .. s_a. Counts and bans at row r include the
// drafts before r, because row r is used only if these were accepted. One choice = argmax over the
// kept ids of l/T + Gumbel(Philox(seed, position, id)), ties to the lowest id; so the noise belongs
// to (seed, position, id) and never to the pass.
struct AcceptArgs {
  int vocab = 0;                   // V, row stride of logits
  int usable_vocab = 0;            // ids at and above it have no text and are never chosen
  View<const float> logits;        // [R, V]
  View<const int32_t> row_tokens;  // [R] token that the row consumed
  View<const AcceptLane> lanes;    // [B]
  View<float>
      counts;  // [S, V] decayed count of each token in the slot's reply; updated by s_0 .. s_a
  View<uint8_t> seen;      // [S, V] kSeenIn... of each token; updated by s_0 .. s_a
  View<int32_t> accepted;  // [S] out: a for every lane of the pass (0 where rows = 0)
  View<int32_t> emitted;   // [B] out: a + 1, or 0 where rows = 0
  View<int32_t> tokens;    // [B, kMaxDrafts + 1] out: s_0 .. s_a; what follows is unspecified, also
                           // in the outputs below
  View<float> logprobs;  // [B, kMaxDrafts + 1] out: log softmax of the raw logits at the choice, 0
                         // where not asked
  View<int32_t>
      top_ids;  // [B, kMaxDrafts + 1, kMaxTopLogprobs] out, best first, ties to the lowest id
  View<float> top_values;  // as top_ids: their log softmax
  View<float> margins;  // [B, kMaxDrafts + 1] out: of a greedy choice, how far its l lies above the
                        // next largest (inf without one); inf where not greedy. Empty: not wanted
  View<float> scratch;  // [n, AcceptScratchFloats(V)], n >= 1: choices that are worked on at a
                        // time
};

void AcceptCpu(const AcceptArgs& args, ThreadPool& pool);

}  // namespace tandem
