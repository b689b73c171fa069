#include <algorithm>

#include "kernels/linear/quantize.h"
#include "kernels/random/random.h"

namespace tandem {
namespace {

template <class T, class Round>
void Fill(T* to, size_t count, const RandomFill& fill, const Round& round) {
  for (size_t first = 0; first < count; first += 4) {
    const std::array<float, 4> values = RandomBlock(fill, first / 4);
    for (size_t i = 0; i < std::min<size_t>(4, count - first); ++i)
      to[first + i] = round(values[i]);
  }
}

}  // namespace

void FillRandomCpu(float* to, size_t count, const RandomFill& fill) {
  Fill(to, count, fill, [](float value) { return value; });
}

void FillRandomBf16Cpu(uint16_t* to, size_t count, const RandomFill& fill) {
  Fill(to, count, fill, FloatToBf16);
}

}  // namespace tandem
