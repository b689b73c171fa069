#include "services/cli/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "services/cli/runtime_directory.h"

namespace tandem::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BenchPlanTest, ReadsTextAndJsonLines) {
  const auto directory = RuntimeDirectory::Create();
  ASSERT_TRUE(directory.ok());
  const std::string path = directory->File("prompts");
  ASSERT_TRUE(WriteFileAtomically(path,
                                  "plain text\r\n\n{\"name\": \"ja\", \"prompt\": \"a\\nb\"}\n"
                                  "{\"prompt\": \"c\"}")
                  .ok());
  const auto prompts = ReadPrompts(path);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 3u);
  EXPECT_EQ((*prompts)[0].text, "plain text");
  EXPECT_EQ((*prompts)[1].name, "ja");
  EXPECT_EQ((*prompts)[1].text, "a\nb");
  EXPECT_EQ((*prompts)[2].name, "line 4");
}

TEST(BenchPlanTest, NamesTheLineThatIsNotAPrompt) {
  const auto directory = RuntimeDirectory::Create();
  ASSERT_TRUE(directory.ok());
  const std::string path = directory->File("prompts");
  ASSERT_TRUE(WriteFileAtomically(path, "ok\n{\"text\": \"x\"}\n").ok());
  EXPECT_THAT(std::string(ReadPrompts(path).status().message()), HasSubstr("prompts:2"));
  ASSERT_TRUE(WriteFileAtomically(path, "ok\n\nab\xFF\n").ok());
  EXPECT_THAT(std::string(ReadPrompts(path).status().message()),
              HasSubstr("prompts:3: not UTF-8 at byte 2"));
  ASSERT_TRUE(WriteFileAtomically(path, "\n\n").ok());
  EXPECT_EQ(ReadPrompts(path).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadPrompts(directory->File("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST(BenchPlanTest, ParsesConcurrency) {
  EXPECT_THAT(*ParseConcurrency("1,4,16"), ElementsAre(1, 4, 16));
  for (const char* text : {"", "0", "1,,2", "a", "-1", "1025"}) {
    EXPECT_EQ(ParseConcurrency(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(BenchPlanTest, BlocksGoRoundThePromptsWithoutAGap) {
  EXPECT_THAT(BlockPrompts(3, 2, 0), ElementsAre(0, 1));
  EXPECT_THAT(BlockPrompts(3, 2, 1), ElementsAre(2, 0));
  EXPECT_THAT(BlockPrompts(3, 5, 1), ElementsAre(2, 0, 1, 2, 0));
  EXPECT_EQ(BlockCount(8, 1, 2), 16);
  EXPECT_EQ(BlockCount(8, 4, 1), 2);
  EXPECT_EQ(BlockCount(8, 5, 1), 2);
  EXPECT_EQ(BlockCount(8, 32, 1), 1);
}

TEST(BenchPlanTest, BuiltInPromptsHaveTextAndDistinctNames) {
  std::vector<std::string> names;
  for (const BenchPrompt& prompt : BuiltInPrompts()) {
    EXPECT_FALSE(prompt.text.empty());
    EXPECT_THAT(names, testing::Not(testing::Contains(prompt.name)));
    names.push_back(prompt.name);
  }
  EXPECT_GE(names.size(), 8u);
}

}  // namespace
}  // namespace tandem::cli
