#include "common/tokenizer/stop_matcher.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/tokenizer/utf8_decoder.h"

namespace tandem {

absl::StatusOr<StopMatcher> StopMatcher::Create(absl::Span<const std::string> stops) {
  StopMatcher matcher;
  matcher.nodes_.emplace_back();
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("stop text ", i, " is empty"));
    }
    if (!IsValidUtf8(stops[i])) {
      return absl::InvalidArgumentError(absl::StrCat("stop text ", i, " is not valid UTF-8"));
    }
    matcher.Insert(stops[i], static_cast<int>(i));
  }
  matcher.Link();
  return matcher;
}

void StopMatcher::Insert(const std::string& stop, int stop_index) {
  int node = kStart;
  for (const char c : stop) {
    const auto byte = static_cast<uint8_t>(c);
    int child = Child(node, byte);
    if (child == 0) {
      child = static_cast<int>(nodes_.size());
      nodes_.push_back({.byte = byte,
                        .next_sibling = nodes_[node].first_child,
                        .depth = nodes_[node].depth + 1});
      nodes_[node].first_child = child;
    }
    node = child;
  }
  stop_sizes_.push_back(stop.size());
  if (nodes_[node].match == kNone) nodes_[node].match = stop_index;
}

// Breadth first, so that the shorter suffixes of a node are complete before it.
void StopMatcher::Link() {
  std::vector<int> order = {kStart};
  for (size_t i = 0; i < order.size(); ++i) {
    const int parent = order[i];
    for (int child = nodes_[parent].first_child; child != 0; child = nodes_[child].next_sibling) {
      order.push_back(child);
      Node& node = nodes_[child];
      if (parent != kStart) node.fail = Advance(nodes_[parent].fail, node.byte);
      if (node.match == kNone) node.match = nodes_[node.fail].match;
    }
  }
}

int StopMatcher::Child(int node, uint8_t byte) const {
  int child = nodes_[node].first_child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

int StopMatcher::Advance(int position, uint8_t byte) const {
  for (;;) {
    if (const int child = Child(position, byte); child != 0) return child;
    if (position == kStart) return kStart;
    position = nodes_[position].fail;
  }
}

int StopMatcher::Decline(int position) const {
  while (position != kStart && nodes_[position].first_child == 0) position = nodes_[position].fail;
  return position;
}

}  // namespace tandem
