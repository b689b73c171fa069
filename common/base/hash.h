#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct XXH3_state_s;

namespace tandem {

// 64-bit XXH3 content hash that recognises equal bytes (model identity, checksums); not
// cryptographic. The result depends on the concatenation of all updates, not on how they were cut.
class Hasher final {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void Update(absl::Span<const uint8_t> bytes);
  void Update(absl::string_view text);
  uint64_t Digest() const;

 private:
  XXH3_state_s* state_;
};

// 16 lower-case hex digits.
std::string HashHex(uint64_t digest);

}  // namespace tandem
