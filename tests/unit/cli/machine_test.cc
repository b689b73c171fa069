#include "services/cli/machine.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tandem::cli {
namespace {

TEST(MachineTest, FindsTheFirstValueOfAKey) {
  const char text[] = "processor\t: 0\nmodel name\t: Some CPU @ 2.5: x\nmodel name\t: Other\n";
  EXPECT_EQ(ValueOf(text, "model name"), "Some CPU @ 2.5: x");
  EXPECT_EQ(ValueOf(text, "model"), "");
}

TEST(MachineTest, DescribesThisOne) {
  const nlohmann::json machine = DescribeMachine();
  EXPECT_GE(machine["cores"].get<int>(), 1);
  EXPECT_GT(machine["memory_bytes"].get<int64_t>(), int64_t{1} << 28);
  EXPECT_FALSE(machine["kernel"].get<std::string>().empty());
}

}  // namespace
}  // namespace tandem::cli
