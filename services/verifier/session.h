#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/model/state.h"

namespace tandem {

// A session as its users see it.
struct SessionInfo {
  std::string id;
  int64_t position = 0;  // tokens held
  bool busy = false;
  bool resident = false;  // the state lies in a slot
  absl::Time opened_at;
  absl::Time last_used_at;
  absl::Duration idle_timeout;
};

// How a session is opened.
struct SessionOptions {
  std::string id = {};  // empty: one is chosen
  absl::Duration idle_timeout = absl::InfiniteDuration();
  std::string router_id = {};  // the router that it lives with; empty: none
};

// One sequence: its token ids and its recurrent state, which lies in a slot, or in host memory, or
// (nothing consumed yet) nowhere. The state has consumed the first `consumed` tokens; the rest,
// normally the last token only, is fed by the next pass. A session without id lives as long as its
// one request. Engine thread only; must not outlive the RecurrentState.
class Session final {
 public:
  Session(SessionOptions options, absl::Time now);

  const std::string& id() const { return options_.id; }
  const std::string& router_id() const { return options_.router_id; }
  bool kept() const { return !id().empty(); }
  SessionInfo Info() const;
  // Not busy, and unused for as long as it may be.
  bool Expired(absl::Time now) const {
    return !busy && now - last_used_at >= options_.idle_timeout;
  }

  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t position() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t consumed() const { return committed_ + accepted_; }
  int64_t pending() const { return position() - consumed(); }

  void Append(absl::Span<const int32_t> tokens);
  // A pass consumed the next `certain` tokens for good and after them `accepted` drafts, which the
  // caller appends.
  void Advance(int certain, int accepted);

  const Slot& slot() const { return slot_; }
  bool resident() const { return static_cast<bool>(slot_); }
  // Takes a slot and loads what host memory holds; RESOURCE_EXHAUSTED when no slot is free.
  absl::Status MakeResident(RecurrentState& state);
  // Moves the state to host memory and gives the slot back.
  void Spill(RecurrentState& state);

  // Remembers tokens and state as they are before a request, so that Restore can undo it. Also the
  // first checkpoint.
  void Remember(RecurrentState& state);
  void Restore();
  // Replaces the checkpoint by the state at this point, the end of the prompt, for a later Cut.
  void SaveCheckpoint(RecurrentState& state);
  // Sets the session to exactly its first `position` tokens, not before those that Remember saw.
  // The state goes to host memory; tokens that it has lost are fed again by the next pass.
  void Cut(RecurrentState& state, int64_t position);
  // The request is over: its last pass is settled into the state and what Remember kept is let go.
  void Settle(RecurrentState& state);

  bool busy = false;
  absl::Time last_used_at;
  // The request that ran last, where its reply begins, and so what a late Cut may refer to.
  std::string last_request_id;
  int64_t reply_begin = 0;

 private:
  // A state in host memory. Empty bytes with consumed = 0: a fresh state.
  struct Copy {
    SavedState bytes;
    int64_t consumed = 0;
  };
  void Load(Copy copy);

  const SessionOptions options_;
  const absl::Time opened_at_;
  std::vector<int32_t> tokens_;
  int64_t committed_ = 0;  // tokens in the state before the log
  int accepted_ = 0;       // log entries that belong to it
  Slot slot_;
  SavedState host_;  // the state while there is no slot; empty: fresh
  std::optional<Copy> before_;
  int64_t position_before_ = 0;
  std::optional<Copy> checkpoint_;
};

}  // namespace tandem
