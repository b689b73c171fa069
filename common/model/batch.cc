#include "common/model/batch.h"

#include "common/base/check.h"
#include "kernels/lanes.h"

namespace tandem {

void DecodeBatch::Clear() {
  tokens.clear();
  offsets.assign(1, 0);
  slots.clear();
  provisional.clear();
  logit_rows.clear();
  first_logit.clear();
}

void DecodeBatch::AddLane(int slot, absl::Span<const int32_t> certain,
                          absl::Span<const int32_t> drafts, bool choose) {
  CHECK(!certain.empty()) << "a lane needs at least one certain token";
  CHECK_LE(drafts.size(), static_cast<size_t>(kMaxDrafts));
  if (offsets.empty()) offsets.push_back(0);
  tokens.insert(tokens.end(), certain.begin(), certain.end());
  tokens.insert(tokens.end(), drafts.begin(), drafts.end());
  offsets.push_back(rows());
  slots.push_back(slot);
  provisional.push_back(static_cast<int32_t>(drafts.size()));
  first_logit.push_back(choose ? static_cast<int32_t>(logit_rows.size()) : -1);
  if (!choose) return;
  const int first = rows() - static_cast<int>(drafts.size()) - 1;
  for (int row = first; row < rows(); ++row) logit_rows.push_back(row);
}

}  // namespace tandem
