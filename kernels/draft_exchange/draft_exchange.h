#pragma once

#include <cstdint>

#include "kernels/draft_records.h"
#include "kernels/view.h"

namespace tandem {

// Four ops that carry a round between two processes without their hosts: the verifier publishes
// what a pass made certain, the drafter resolves and answers it, the verifier takes the drafts.
// `records` and `times` lie in shared memory; everything read there is read once and checked.

// A lane of the pass that wants drafts of the round before it.
struct DraftTakeLane {
  int32_t record = 0;  // of the round
  int32_t slot = 0;
  uint32_t generation = 0;
  int32_t count = 0;        // rows of drafts in the pass, 1 .. kMaxDrafts
  int32_t first_row = 0;    // of them among the pass's rows
  int32_t first_logit = 0;  // of them among the rows with logits
};

// Writes the drafts into the pass. A draft that did not come (its record does not echo the lane,
// lists fewer, or an id is out of range there or before) leaves token 0 in its row, and -1, which
// equals no choice, where the row is compared.
struct DraftTakeArgs {
  uint64_t epoch = 0;
  uint64_t step = 0;
  int vocab = 0;
  View<const DraftRecord> records;    // [n]; empty: no drafts came
  const RoundTimes* times = nullptr;  // of the round
  View<const DraftTakeLane> lanes;    // [L]
  View<int32_t> tokens;               // [T] out: consumed by the rows
  View<int32_t> row_tokens;           // [R] out: the same, by rows with logits
  View<int32_t> taken;                // [L] out: drafts that came
  View<uint64_t> clock;               // [4] out: the round's published, started, finished; now
};

struct DraftPublishLane {
  int32_t pass_lane = 0;
  int32_t slot = 0;
  uint32_t generation = 0;
};

struct DraftPublishArgs {
  uint64_t epoch = 0;
  uint64_t step = 0;
  View<const DraftPublishLane> lanes;  // [L]
  View<const int32_t> emitted;         // [B] as AcceptArgs
  View<const int32_t> tokens;          // [B, kMaxDrafts + 1] as AcceptArgs
  View<CertainRecord> records;         // [L] out
  RoundTimes* times = nullptr;         // out
};

// A lane as the drafter's host knows it before the pass has run: of its count + drafts rows the
// first count + accepted are certain.
struct DraftResolveLane {
  int32_t record = 0;
  int32_t slot = 0;
  uint32_t generation = 0;
  int32_t row = 0;      // first of its rows
  int32_t count = 0;    // certain rows, >= 1
  int32_t drafts = 0;   // rows after them, 0 .. kMaxDrafts
  int32_t chooses = 0;  // 1: the token after the last certain row is in the record
  int32_t second =
      -1;  // query of the position before the last certain one; -1: the lane has one row
  int32_t wanted = 0;
  int32_t cold = 0;      // 1: nothing is known before the first row
  int64_t position = 0;  // of the first row
};

// Fills what the drafter's ops read about the lanes' rows. A record that does not fit the lane
// counts as no draft accepted and the next token as 0; such a lane gets no answer.
struct DraftResolveArgs {
  uint64_t epoch = 0;
  uint64_t step = 0;
  int vocab = 0;
  int width = 0;                       // C
  View<const CertainRecord> records;   // [n]
  RoundTimes* times = nullptr;         // out; null: not wanted
  View<const DraftResolveLane> lanes;  // [L]
  float* shifts = nullptr;             // [S, 2, C] z of the slots' last even and odd positions
  float* no_z = nullptr;               // [C] zeros
  float* unused_z = nullptr;           // [L, C] for queries that nobody asks
  View<int32_t> tokens;                // [R] out, from row + count - 1 on where the lane chooses
  View<int32_t> query_rows;            // [Q] out: lane i's last position at i, see `second`
  View<float*> z;                      // [Q] out
  View<float*> z_prev;                 // [lanes with wanted > 0] out
  View<int64_t> draft_positions[kMaxDrafts + 1];  // [k]: [lanes with wanted >= k] out, k > 1
  View<int32_t> fed;  // [L] out: certain positions, 0 where the record does not fit
};

struct DraftAnswerArgs {
  uint64_t epoch = 0;
  uint64_t step = 0;
  View<const DraftResolveLane> lanes;  // [L]
  View<const int32_t> fed;             // [L]
  View<const int32_t> drafts;          // [kMaxDrafts, stride]: draft k of lane i at k * stride + i
  int stride = 0;
  View<DraftRecord> records;    // [n] out, those of the lanes
  RoundTimes* times = nullptr;  // out; null: not wanted
};

void DraftTakeCpu(const DraftTakeArgs& args);
void DraftPublishCpu(const DraftPublishArgs& args);
void DraftResolveCpu(const DraftResolveArgs& args);
void DraftAnswerCpu(const DraftAnswerArgs& args);

}  // namespace tandem
