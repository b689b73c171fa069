#pragma once

#include <deque>
#include <mutex>
#include <utility>

namespace tandem {

// The outgoing side of one stream, without the transport: at most one write in flight, and whatever
// gathers meanwhile becomes one message where messages can merge. Thread-safe. Each call returns
// what the caller has to do next, outside of any lock; kWrite never comes before the last one is
// over, and kFinish comes exactly once, as the last.
template <typename Message>
class StreamCore final {
 public:
  enum class Step {
    kNone,
    kWrite,   // send writing(), then call Written
    kFinish,  // end the stream
  };
  // Appends `from` to `into` and returns true, or leaves both alone and returns false.
  using Merge = bool (*)(Message& into, Message& from);

  explicit StreamCore(Merge merge) : merge_(merge) {}

  // A message that stands for `tokens` tokens. Dropped after End or Cancel.
  Step Push(Message message, int tokens) {
    const std::lock_guard lock(mutex_);
    if (ended_ || cancelled_) return Step::kNone;
    pending_tokens_ += tokens;
    if (!gathered_.empty() && merge_(gathered_.back().message, message)) {
      gathered_.back().tokens += tokens;
    } else {
      gathered_.push_back({.message = std::move(message), .tokens = tokens});
    }
    return Next();
  }

  // No more messages: finishes when everything is written. Only the first End counts.
  Step End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    return Next();
  }

  // The write in flight is over; not `ok` is as Cancel.
  Step Written(bool ok) {
    const std::lock_guard lock(mutex_);
    in_flight_ = false;
    pending_tokens_ -= writing_.tokens;
    if (!ok) Drop();
    return Next();
  }

  // The peer is gone: drops what gathered.
  Step Cancel() {
    const std::lock_guard lock(mutex_);
    Drop();
    return Next();
  }

  // The message of the last kWrite, unchanged until Written.
  const Message& writing() const { return writing_.message; }

  // Tokens pushed whose write is not over.
  int pending_tokens() const {
    const std::lock_guard lock(mutex_);
    return pending_tokens_;
  }

 private:
  struct Item {
    Message message = {};
    int tokens = 0;
  };

  void Drop() {
    cancelled_ = true;
    for (const Item& item : gathered_) pending_tokens_ -= item.tokens;
    gathered_.clear();
  }

  Step Next() {
    if (in_flight_ || finished_) return Step::kNone;
    if (!gathered_.empty()) {
      writing_ = std::move(gathered_.front());
      gathered_.pop_front();
      in_flight_ = true;
      return Step::kWrite;
    }
    if (!ended_ && !cancelled_) return Step::kNone;
    finished_ = true;
    return Step::kFinish;
  }

  const Merge merge_;
  mutable std::mutex mutex_;
  std::deque<Item> gathered_;
  Item writing_;
  int pending_tokens_ = 0;
  bool in_flight_ = false;
  bool ended_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
};

}  // namespace tandem
