#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

// Drafts per step by the number of lanes that decode in it: "limit:K" entries separated by commas,
// of which the first with limit >= lanes applies; limit 0 means any number. No entry: 0, plain
// decoding. Example: "4:3,16:2,0:0".
class DraftSchedule final {
 public:
  // No drafts at all.
  DraftSchedule() = default;
  // INVALID_ARGUMENT naming the entry: not two non-negative integers, an empty entry, an entry
  // after limit 0, limits that do not ascend, K above kMaxDrafts.
  static absl::StatusOr<DraftSchedule> Parse(absl::string_view text);

  int DraftsFor(int lanes) const;
  const std::string& text() const { return text_; }

 private:
  struct Entry {
    int limit = 0;
    int drafts = 0;
  };
  std::string text_;
  std::vector<Entry> entries_;
};

}  // namespace tandem
