#include "common/ipc/messages.h"

#include "absl/types/span.h"
#include "common/base/hash.h"

namespace tandem::ipc {

uint64_t KeyedAnswer(uint64_t epoch, uint64_t nonce, uint64_t feature_nonce) {
  const uint64_t values[3] = {epoch, nonce, feature_nonce};
  Hasher hasher;
  hasher.Update(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values), sizeof(values)));
  return hasher.Digest();
}

}  // namespace tandem::ipc
