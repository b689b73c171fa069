#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_set>

namespace tandem {

// The ids that were added last, at most `capacity` of them.
class RecentIds final {
 public:
  explicit RecentIds(size_t capacity) : capacity_(capacity) {}

  // An id that is there already keeps its place.
  void Add(const std::string& id) {
    if (!ids_.insert(id).second) return;
    order_.push_back(id);
    if (order_.size() <= capacity_) return;
    ids_.erase(order_.front());
    order_.pop_front();
  }
  bool Contains(const std::string& id) const { return ids_.count(id) > 0; }

 private:
  const size_t capacity_;
  std::unordered_set<std::string> ids_;
  std::deque<std::string> order_;  // oldest first
};

}  // namespace tandem
