#include "services/verifier/session.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem {

Session::Session(SessionOptions options, absl::Time now)
    : last_used_at(now), options_(std::move(options)), opened_at_(now) {}

SessionInfo Session::Info() const {
  return {.id = id(),
          .position = position(),
          .busy = busy,
          .resident = resident(),
          .opened_at = opened_at_,
          .last_used_at = last_used_at,
          .idle_timeout = options_.idle_timeout};
}

void Session::Append(absl::Span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void Session::Advance(int certain, int accepted) {
  committed_ += accepted_ + certain;
  accepted_ = accepted;
}

absl::Status Session::MakeResident(RecurrentState& state) {
  if (resident()) return absl::OkStatus();
  ASSIGN_OR_RETURN(slot_, state.Acquire());
  if (host_.empty()) {
    CHECK_EQ(consumed(), 0);
    return absl::OkStatus();
  }
  CHECK_OK(state.Load(slot_, host_));
  host_ = {};
  return absl::OkStatus();
}

void Session::Spill(RecurrentState& state) {
  if (!resident()) return;
  if (consumed() > 0) host_ = state.Save(slot_);
  committed_ += std::exchange(accepted_, 0);
  slot_ = Slot();
}

void Session::Remember(RecurrentState& state) {
  Copy copy{.bytes = resident() && consumed() > 0 ? state.Save(slot_) : host_,
            .consumed = consumed()};
  committed_ += std::exchange(accepted_, 0);
  checkpoint_ = copy;
  before_ = std::move(copy);
  position_before_ = position();
}

void Session::Load(Copy copy) {
  slot_ = Slot();
  host_ = std::move(copy.bytes);
  committed_ = copy.consumed;
  accepted_ = 0;
}

void Session::Restore() {
  CHECK(before_.has_value());
  tokens_.resize(static_cast<size_t>(position_before_));
  if (consumed() != before_->consumed) Load(*std::exchange(before_, std::nullopt));
  before_.reset();
  checkpoint_.reset();
}

void Session::SaveCheckpoint(RecurrentState& state) {
  checkpoint_ = Copy{.bytes = state.Save(slot_), .consumed = consumed()};
}

void Session::Cut(RecurrentState& state, int64_t position) {
  CHECK_LE(position, this->position());
  tokens_.resize(static_cast<size_t>(position));
  if (consumed() < position) return;  // only unread tokens were cut
  if (committed_ < position) {
    // The last token stays unread, as after a round that ends with it.
    accepted_ = static_cast<int>(std::min<int64_t>(accepted_, position - 1 - committed_));
    if (resident()) state.SetAccepted(slot_, accepted_);
    Spill(state);
  } else {
    CHECK(checkpoint_.has_value() && checkpoint_->consumed <= position);
    Load(*checkpoint_);
  }
}

void Session::Settle(RecurrentState& state) {
  if (resident()) {
    state.SetAccepted(slot_, accepted_);
    state.Settle(slot_);
  }
  committed_ += std::exchange(accepted_, 0);
  before_.reset();
}

}  // namespace tandem
