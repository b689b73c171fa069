#include "common/base/hash.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace tandem {

Hasher::Hasher() : state_(XXH3_createState()) {
  CHECK(state_ != nullptr);
  XXH3_64bits_reset(state_);
}

Hasher::~Hasher() { XXH3_freeState(state_); }

void Hasher::Update(absl::Span<const uint8_t> bytes) {
  XXH3_64bits_update(state_, bytes.data(), bytes.size());
}

void Hasher::Update(absl::string_view text) {
  XXH3_64bits_update(state_, text.data(), text.size());
}

uint64_t Hasher::Digest() const { return XXH3_64bits_digest(state_); }

std::string HashHex(uint64_t digest) { return absl::StrFormat("%016x", digest); }

}  // namespace tandem
