#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "common/model/pth/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto pickle = tandem::ReadPickle({data, size}, "fuzz");
  if (!pickle.ok()) return 0;
  CHECK(pickle->root < pickle->values.size());
  for (const tandem::PickleValue& value : pickle->values) {
    for (uint32_t item : value.items) CHECK(item < pickle->values.size());
  }
  return 0;
}
