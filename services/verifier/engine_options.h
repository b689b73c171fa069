#pragma once

#include <functional>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/lanes.h"
#include "services/verifier/schedule.h"

namespace tandem {

struct EngineOptions {
  int max_sequences = 32;                           // S: state slots, and the most lanes of a pass
  int max_sessions = 1024;                          // sessions held, resident or in host memory
  absl::Duration router_grace = absl::Seconds(10);  // of sessions whose router is away
  int queue_limit = 256;                            // requests that wait for a slot
  int prefill_chunk = 256;                          // most prompt rows of one lane in a pass
  int prefill_budget = 512;                         // most prompt rows of a pass
  int max_prompt_tokens = 1 << 20;                  // of one request
  DraftSchedule schedule;
  // Drafts kept per step on average, whatever the model chose; -1: those that it chose as well. For
  // speed runs with weights that nobody trained.
  double simulated_accepted = -1;
  int usable_vocab = 0;    // ids at and above it are never chosen; 0: all may be
  int unsent_limit = 256;  // tokens; a stream with more unsent ones is paused
  absl::Duration pause_limit = absl::Seconds(10);
  std::function<absl::Time()> now = [] { return absl::Now(); };

  // Most rows of a pass: the prompt rows beside every lane at full depth.
  int max_rows() const { return prefill_budget + max_sequences * (kMaxDrafts + 1); }
};

}  // namespace tandem
