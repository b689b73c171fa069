#include "services/cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace tandem::cli {
namespace {

using testing::HasSubstr;

// The whole command line, as main builds it.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    app_.require_subcommand(1);
    for (auto make : {MakeUpCommand, MakeGenerateCommand, MakeChatCommand, MakeInspectCommand,
                      MakeBenchCommand}) {
      commands_.push_back(make(app_));
    }
  }

  // The name of the subcommand that was asked for.
  std::string Parse(std::vector<std::string> arguments) {
    app_.clear();
    app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return app_.get_subcommands()[0]->get_name();
  }

  CLI::App app_;
  std::vector<Command> commands_;
};

TEST_F(CommandTest, KnowsItsSubcommands) {
  EXPECT_EQ(Parse({"up", "--model", "m", "--verifier-flag=--handoff=host", "--verifier-flag",
                   "--threads=2", "--address=127.0.0.1:0"}),
            "up");
  EXPECT_EQ(Parse({"generate", "Hello", "--json", "--max-drafts=3", "--seed=1"}), "generate");
  EXPECT_EQ(Parse({"chat", "--think=skip"}), "chat");
  EXPECT_EQ(Parse({"inspect", "m", "--json"}), "inspect");
  EXPECT_EQ(Parse({"bench", "--concurrency=1,8", "--prefill=1024"}), "bench");
}

TEST_F(CommandTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(Parse({}), CLI::ParseError);
  EXPECT_THROW(Parse({"fly"}), CLI::ParseError);
  EXPECT_THROW(Parse({"up"}), CLI::ParseError);
  EXPECT_THROW(Parse({"up", "--model=m", "--drain-timeout=-1s"}), CLI::ParseError);
  EXPECT_THROW(Parse({"generate", "--think=perhaps"}), CLI::ParseError);
  EXPECT_THROW(Parse({"inspect", "m", "--max-sequences=0"}), CLI::ParseError);
  EXPECT_THROW(Parse({"bench", "--model=m", "--address=a:1"}), CLI::ParseError);
  EXPECT_THROW(Parse({"bench", "--max-tokens=1"}), CLI::ParseError);
}

TEST_F(CommandTest, DurationsAreWrittenWithUnits) {
  EXPECT_EQ(Parse({"up", "--model=m", "--drain-timeout=1m30s", "--start-timeout=2h"}), "up");
  EXPECT_THROW(Parse({"up", "--model=m", "--drain-timeout=30"}), CLI::ParseError);
  EXPECT_THROW(Parse({"up", "--model=m", "--start-timeout=0"}), CLI::ParseError);
  EXPECT_THROW(Parse({"generate", "x", "--timeout=30"}), CLI::ParseError);
}

TEST_F(CommandTest, OptionsThatWouldBeIgnoredAreRefused) {
  EXPECT_THROW(Parse({"generate", "x", "--position=3"}), CLI::ParseError);
  EXPECT_THROW(Parse({"generate", "x", "--session=s", "--position=-1"}), CLI::ParseError);
  EXPECT_EQ(Parse({"generate", "x", "--session=s", "--position=3"}), "generate");
  EXPECT_THROW(Parse({"generate", "x", "--system=s"}), CLI::ParseError);
  EXPECT_THROW(Parse({"generate", "x", "--think=on"}), CLI::ParseError);
  EXPECT_THROW(Parse({"generate", "x", "--token-ids=1,2"}), CLI::ParseError);
  EXPECT_THROW(Parse({"generate", "x", "--json", "--show-drafts"}), CLI::ParseError);
  EXPECT_THROW(Parse({"bench", "--prefill-samples=3"}), CLI::ParseError);
  EXPECT_THROW(Parse({"bench", "--up-flag=--threads=1"}), CLI::ParseError);
}

TEST_F(CommandTest, InputThatCannotBeSentSaysWhichAndWhy) {
  const auto error = [this](std::vector<std::string> arguments) {
    Parse(std::move(arguments));
    const absl::Status status = commands_[1].run();
    EXPECT_EQ(ExitCode(status), 2);
    return ErrorLine(status);
  };
  EXPECT_THAT(error({"generate", "a\xFF"}), HasSubstr("prompt: not UTF-8 at byte 1"));
  EXPECT_THAT(error({"generate", ""}), HasSubstr("the prompt is empty"));
  EXPECT_THAT(error({"generate", "--token-ids=5,x"}), HasSubstr("'x' is not a token id"));
  EXPECT_THAT(error({"generate", "--token-ids=-1"}), HasSubstr("'-1' is not a token id"));
  EXPECT_THAT(error({"generate", "--token-ids=,"}), HasSubstr("no ids"));
}

TEST_F(CommandTest, AWrongModelIsAUsageError) {
  ASSERT_EQ(Parse({"inspect", "/nowhere/model"}), "inspect");
  const absl::Status status = commands_[3].run();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(ErrorLine(status), HasSubstr("/nowhere/model"));
}

TEST_F(CommandTest, AnAddressWhereNothingAnswersSaysWhatToDo) {
  // Port 1 of the loopback address is not served.
  ASSERT_EQ(Parse({"generate", "Hello", "--address=127.0.0.1:1", "--timeout=5s"}), "generate");
  const absl::Status status = commands_[1].run();
  EXPECT_EQ(ExitCode(status), 1);
  EXPECT_THAT(ErrorLine(status), HasSubstr("nothing answers at 127.0.0.1:1"));
  EXPECT_THAT(ErrorLine(status), HasSubstr("tandem up"));
}

TEST(ExitCodeTest, FollowsTheStatus) {
  EXPECT_EQ(ExitCode(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCode(absl::InvalidArgumentError("x")), 2);
  EXPECT_EQ(ExitCode(absl::UnavailableError("x")), 1);
  EXPECT_EQ(ExitCode(AsUsageError(absl::NotFoundError("x"))), 2);
  EXPECT_TRUE(AsUsageError(absl::OkStatus()).ok());
}

TEST(ErrorLineTest, IsOneLine) {
  EXPECT_EQ(ErrorLine(absl::UnavailableError("a\nb\r\nc")), "tandem: a b  c");
  EXPECT_EQ(ErrorLine(absl::UnavailableError("")), "tandem: UNAVAILABLE");
}

}  // namespace
}  // namespace tandem::cli
