#include "common/drafter/kinds.h"

#include "absl/strings/str_cat.h"

namespace tandem {

#define TANDEM_DRAFTER_KIND(name, Load) \
  absl::StatusOr<LoadedDrafter> Load(Backend* backend, const DrafterSetup& setup);
#include "common/drafter/kinds.def"
#undef TANDEM_DRAFTER_KIND

absl::StatusOr<LoadedDrafter> LoadDrafter(absl::string_view kind, Backend* backend,
                                          const DrafterSetup& setup) {
  std::string known;
#define TANDEM_DRAFTER_KIND(name, Load)           \
  if (kind == #name) return Load(backend, setup); \
  absl::StrAppend(&known, known.empty() ? "" : ", ", #name);
#include "common/drafter/kinds.def"
#undef TANDEM_DRAFTER_KIND
  return absl::InvalidArgumentError(
      absl::StrCat("unknown drafter kind \"", kind, "\"; known kinds: ", known));
}

}  // namespace tandem
