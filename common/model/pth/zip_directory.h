#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem {

struct ZipMember {
  std::string name;
  absl::Span<const uint8_t> bytes;  // inside the archive
};

// The members of a zip or ZIP64 archive that lies whole in memory, in directory order. Members must
// be stored without compression and encryption and lie inside the archive; names are unique.
// INVALID_ARGUMENT naming `file` and member otherwise. Checksums are not compared.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(absl::Span<const uint8_t> archive,
                                                        const std::string& file);

}  // namespace tandem
