#include "common/base/random.h"

#include <sys/random.h>

#include "common/base/check.h"
#include "common/base/hash.h"

namespace tandem {

uint64_t RandomBits() {
  uint64_t bits = 0;
  CHECK(getrandom(&bits, sizeof(bits), 0) == sizeof(bits)) << "getrandom";
  return bits;
}

std::string RandomId() { return HashHex(RandomBits()); }

}  // namespace tandem
