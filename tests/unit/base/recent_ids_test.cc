#include "common/base/recent_ids.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(RecentIds, TheOldestIsForgottenFirst) {
  RecentIds ids(2);
  EXPECT_FALSE(ids.Contains("a"));
  for (const char* id : {"a", "b", "a"}) ids.Add(id);
  EXPECT_TRUE(ids.Contains("a"));
  EXPECT_TRUE(ids.Contains("b"));
  ids.Add("c");
  EXPECT_FALSE(ids.Contains("a")) << "adding it again does not make it younger";
  EXPECT_TRUE(ids.Contains("b"));
  EXPECT_TRUE(ids.Contains("c"));
}

}  // namespace
}  // namespace tandem
