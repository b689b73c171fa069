#include "services/verifier/simulated_acceptance.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(SimulatedAcceptanceTest, HasTheWantedMeanOutOfItsNeighbours) {
  constexpr int kSteps = 20'000;
  for (const double mean : {0.0, 0.25, 1.0, 1.1, 2.5, 8.0}) {
    double sum = 0;
    for (int position = 0; position < kSteps; ++position) {
      const int kept = SimulatedAccepted(mean, position);
      EXPECT_EQ(kept, SimulatedAccepted(mean, position));
      EXPECT_GT(kept, mean - 1);
      EXPECT_LT(kept, mean + 1);
      sum += kept;
    }
    // Five standard deviations of a coin of the worst kind, 0.5 / sqrt(n).
    EXPECT_NEAR(sum / kSteps, mean, 0.018) << mean;
  }
}

}  // namespace
}  // namespace tandem
