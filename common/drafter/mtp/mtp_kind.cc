#include "common/base/status_macros.h"
#include "common/drafter/kinds.h"
#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_file.h"

namespace tandem {

absl::StatusOr<LoadedDrafter> LoadMtp(Backend* backend, const DrafterSetup& setup) {
  const MtpBase base = {
      .name = setup.base_name, .layers = setup.layers, .width = setup.width, .vocab = setup.vocab};
  ASSIGN_OR_RETURN(const std::unique_ptr<MtpFile> file,
                   MtpFile::Open(setup.folder, base, setup.force));
  ASSIGN_OR_RETURN(std::unique_ptr<Mtp> mtp, Mtp::Create(backend, *file,
                                                         {.vocab = setup.vocab,
                                                          .embedding = setup.embedding,
                                                          .head = setup.head,
                                                          .slots = setup.slots,
                                                          .max_lanes = setup.max_lanes,
                                                          .max_rows = setup.max_rows}));
  return LoadedDrafter{.drafter = std::move(mtp),
                       .taps = file->config().fuse_layers,
                       .content_hash = file->content_hash(),
                       .warnings = file->warnings()};
}

}  // namespace tandem
