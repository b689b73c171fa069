#include <cstddef>
#include <cstdint>

#include "common/model/safetensors/safetensors_reader.h"
#include "tests/fuzz/check_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto contents = tandem::ReadSafetensors({data, size}, "fuzz");
  if (contents.ok()) tandem::CheckTensors(contents->tensors, {data, size});
  return 0;
}
