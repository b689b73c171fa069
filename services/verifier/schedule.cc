#include "services/verifier/schedule.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "kernels/lanes.h"

namespace tandem {
namespace {

absl::Status EntryError(absl::string_view text, absl::string_view entry, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("draft schedule \"", text, "\", entry \"", entry, "\": ", why,
                   "; a schedule looks like 4:3,16:2,0:0 (lanes:drafts)"));
}

bool ParseCount(absl::string_view digits, int* value) {
  return !digits.empty() && digits.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(digits, value);
}

}  // namespace

absl::StatusOr<DraftSchedule> DraftSchedule::Parse(absl::string_view text) {
  DraftSchedule schedule;
  schedule.text_ = std::string(text);
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    if (entry.empty()) return EntryError(text, entry, "is empty");
    const std::vector<absl::string_view> parts = absl::StrSplit(entry, ':');
    Entry parsed;
    if (parts.size() != 2 || !ParseCount(parts[0], &parsed.limit) ||
        !ParseCount(parts[1], &parsed.drafts)) {
      return EntryError(text, entry, "is not two non-negative integers");
    }
    if (parsed.drafts > kMaxDrafts) {
      return EntryError(text, entry, absl::StrCat("asks for more than ", kMaxDrafts, " drafts"));
    }
    if (!schedule.entries_.empty()) {
      const int last = schedule.entries_.back().limit;
      if (last == 0)
        return EntryError(text, entry,
                          "follows limit 0, which already holds for any number of lanes");
      if (parsed.limit != 0 && parsed.limit <= last) {
        return EntryError(text, entry,
                          absl::StrCat("has a limit that is not above the one before, ", last));
      }
    }
    schedule.entries_.push_back(parsed);
  }
  return schedule;
}

int DraftSchedule::DraftsFor(int lanes) const {
  for (const Entry& entry : entries_) {
    if (entry.limit == 0 || entry.limit >= lanes) return entry.drafts;
  }
  return 0;
}

}  // namespace tandem
