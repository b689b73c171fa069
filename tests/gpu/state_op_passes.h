#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/state_rig.h"

namespace tandem {

inline TestLanes NoLanes() {
  return {.slots = {}, .provisional = {}, .accepted = std::vector<int32_t>(kRigSlots, 0)};
}

// Tokens first, first + 1, ... in turn.
inline std::vector<int> TokensFrom(int first, int count) {
  std::vector<int> tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = (first + i) % kRigTokens;
  return tokens;
}

// Whether two values agree; NaN agrees with NaN.
inline bool Near(float actual, float expected, float tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  return std::fabs(actual - expected) <= tolerance;
}

inline void ExpectRowsNear(const std::vector<float>& actual, const std::vector<float>& expected,
                           const StateRig& rig) {
  ASSERT_EQ(actual.size(), expected.size());
  const size_t width = static_cast<size_t>(rig.output_width());
  for (size_t i = 0; i < actual.size(); ++i) {
    const float tolerance = rig.Tolerance(static_cast<int>(i % width));
    ASSERT_TRUE(Near(actual[i], expected[i], tolerance))
        << "row " << i / width << ", column " << i % width << ": " << actual[i] << " instead of "
        << expected[i];
  }
}

inline void ExpectAllNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(Near(actual[i], expected[i], 1e-4f))
        << "at " << i << ": " << actual[i] << " instead of " << expected[i];
  }
}

// A pass of random lanes; `pending` [kRigSlots] is what each slot has logged, updated.
inline TestLanes DrawLanes(Random& random, std::vector<int>* pending) {
  TestLanes lanes = NoLanes();
  for (size_t s = 0; s < kRigSlots; ++s) lanes.accepted[s] = random.Int(0, (*pending)[s]);
  std::vector<int> slots(kRigSlots);
  std::iota(slots.begin(), slots.end(), 0);
  for (int i = kRigSlots - 1; i > 0; --i) {
    std::swap(slots[static_cast<size_t>(i)], slots[static_cast<size_t>(random.Int(0, i))]);
  }
  const int count = random.Int(1, 5);
  for (int b = 0; b < count; ++b) {
    const int slot = slots[static_cast<size_t>(b)];
    const int drafts = random.Int(0, kMaxDrafts);
    lanes.Add(slot, b == 0 && random.Int(0, 1) == 0 ? random.Int(17, 45) : random.Int(1, 3),
              drafts);
    (*pending)[static_cast<size_t>(slot)] = drafts;
  }
  return lanes;
}

// A rig and the width that it is tested at.
template <class TestedRig, int kTestedWidth>
struct AtWidth {
  using Rig = TestedRig;
  static constexpr int kWidth = kTestedWidth;
};
template <class A, class B>
using AtAllWidths = testing::Types<AtWidth<A, 256>, AtWidth<B, 256>, AtWidth<A, 2560>,
                                   AtWidth<B, 2560>, AtWidth<A, 4096>, AtWidth<B, 4096>>;
// Names of the form "256_0".
struct WidthNames {
  template <class T>
  static std::string GetName(int index) {
    return std::to_string(T::kWidth) + "_" + std::to_string(index);
  }
};

// The properties of every state op on the device; T is an AtWidth.
template <class T>
class StateOpCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = CudaOrNull();
    if (backend_ == nullptr) GTEST_SKIP() << "no CUDA device";
  }

  std::unique_ptr<Backend> backend_;
};

}  // namespace tandem
