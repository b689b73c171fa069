#include "services/router/reply.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/router/demo_vocabulary.h"

namespace tandem {
namespace {

// Single bytes are tokens: id = byte + 1.
std::vector<uint32_t> ByteIds(const std::string& text) {
  std::vector<uint32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c) + 1U);
  return ids;
}

Reply MakeReply(const ReplyOptions& options) {
  return Reply::Create(&DemoVocabulary(), options).value();
}

v1::Delta MakeDelta(const std::vector<uint32_t>& ids, uint32_t drafted, uint32_t accepted) {
  v1::Delta delta;
  for (const uint32_t id : ids) {
    delta.add_token_ids(id);
    delta.add_logprobs()->set_token_id(id);
  }
  v1::Round& round = *delta.add_rounds();
  round.set_tokens(static_cast<uint32_t>(ids.size()));
  round.set_drafted(drafted);
  round.set_accepted(accepted);
  return delta;
}

struct Result {
  std::string text;
  std::string reasoning;
  std::vector<uint32_t> ids;
  uint32_t round_tokens = 0;
  int logprobs = 0;
  bool stopped = false;

  void Add(const Reply::Output& output) {
    text += output.delta.text();
    reasoning += output.delta.reasoning_text();
    ids.insert(ids.end(), output.delta.token_ids().begin(), output.delta.token_ids().end());
    for (const v1::Round& round : output.delta.rounds()) round_tokens += round.tokens();
    logprobs += output.delta.logprobs_size();
    stopped = stopped || output.stop_index.has_value();
  }
};

// Feeds `ids` in rounds of `size`; every round drafted 3 and accepted its tokens but the last.
Result Feed(Reply& reply, const std::vector<uint32_t>& ids, size_t size) {
  Result result;
  for (size_t at = 0; at < ids.size(); at += size) {
    const size_t end = std::min(ids.size(), at + size);
    const std::vector<uint32_t> part(ids.begin() + at, ids.begin() + end);
    const auto output = reply.Add(MakeDelta(part, 3, static_cast<uint32_t>(part.size()) - 1));
    EXPECT_TRUE(output.ok()) << output.status();
    result.Add(*output);
  }
  result.Add(reply.End());
  return result;
}

void ExpectConsistent(const Result& result, Reply& reply) {
  const v1::Usage& usage = reply.usage().usage();
  EXPECT_EQ(usage.generated_tokens(), result.ids.size());
  EXPECT_EQ(result.round_tokens, result.ids.size());
  EXPECT_EQ(static_cast<size_t>(result.logprobs), result.ids.size());
  EXPECT_EQ(reply.ids(), result.ids);
  EXPECT_LE(usage.retained_tokens(), usage.accepted_tokens());
  EXPECT_LE(usage.accepted_tokens(), usage.drafted_tokens());
}

// C07, C09: a stop text that ends at every offset of a block of several tokens.
TEST(Reply, AStopAtEveryOffsetOfABlockCutsEverythingAtTheSameToken) {
  for (size_t block = 1; block <= 4; ++block) {
    for (size_t before = 0; before <= 8; ++before) {
      Reply reply = MakeReply({.stops = {"END"}, .logprobs = true});
      const std::string head(before, 'x');
      const Result result = Feed(reply, ByteIds(head + "ENDyyyy"), block);
      EXPECT_TRUE(result.stopped);
      EXPECT_EQ(result.text, head) << block << "/" << before;
      EXPECT_EQ(result.ids, ByteIds(head)) << block << "/" << before;
      ExpectConsistent(result, reply);
    }
  }
}

TEST(Reply, TrimmedTokensOfTheBlockAreCounted) {
  Reply reply = MakeReply({.stops = {"END"}, .logprobs = true});
  const auto output = reply.Add(MakeDelta(ByteIds("abENDcd"), 7, 6));
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->stop_index, 0);
  EXPECT_EQ(reply.trimmed(), 5U);
  const v1::Usage& usage = reply.usage().usage();
  EXPECT_EQ(usage.generated_tokens(), 2U);
  EXPECT_EQ(usage.drafted_tokens(), 7U);
  EXPECT_EQ(usage.accepted_tokens(), 6U);
  EXPECT_EQ(usage.retained_tokens(), 2U);
  EXPECT_EQ(usage.rounds(), 1U);
}

TEST(Reply, ARoundThatIsTrimmedWhollyDoesNotCount) {
  Reply reply = MakeReply({.stops = {"END"}, .logprobs = true});
  const Result result = Feed(reply, ByteIds("xxxEND"), 3);
  EXPECT_EQ(result.ids, ByteIds("xxx"));
  EXPECT_EQ(reply.usage().usage().rounds(), 1U);
  EXPECT_EQ(reply.usage().usage().drafted_tokens(), 3U);
}

TEST(Reply, TheIncludedStopStaysWithItsTokens) {
  for (size_t block = 1; block <= 6; ++block) {
    Reply reply = MakeReply({.stops = {"END"}, .include_stop = true, .logprobs = true});
    const Result result = Feed(reply, ByteIds("abENDcd"), block);
    EXPECT_EQ(result.text, "abEND");
    EXPECT_EQ(result.ids, ByteIds("abEND"));
    ExpectConsistent(result, reply);
  }
}

TEST(Reply, APossibleStopThatDoesNotComeIsReleased) {
  Reply reply = MakeReply({.stops = {"\nUser:"}, .logprobs = true});
  Result result;
  result.Add(*reply.Add(MakeDelta(ByteIds("a\nUse"), 0, 0)));
  EXPECT_EQ(result.text, "a");
  EXPECT_TRUE(result.ids.empty()) << "a round is released whole";
  result.Add(*reply.Add(MakeDelta(ByteIds("less"), 0, 0)));
  EXPECT_EQ(result.text, "a\nUseless");
  EXPECT_EQ(result.ids, ByteIds("a\nUseless"));
  result.Add(reply.End());
  ExpectConsistent(result, reply);
}

// C18: characters of several bytes, cut at every token group.
TEST(Reply, CharactersAreNeverCutOrLost) {
  const std::string text = "日本語 🙂é!";
  for (size_t block = 1; block <= 7; ++block) {
    Reply reply = MakeReply({.logprobs = true});
    const std::vector<uint32_t> ids = ByteIds(text);
    Result result;
    for (size_t at = 0; at < ids.size(); at += block) {
      const std::vector<uint32_t> part(ids.begin() + at,
                                       ids.begin() + std::min(ids.size(), at + block));
      const auto output = reply.Add(MakeDelta(part, 0, 0));
      ASSERT_TRUE(output.ok());
      EXPECT_EQ(output->delta.text().find("\xEF\xBF\xBD"), std::string::npos);
      result.Add(*output);
    }
    result.Add(reply.End());
    EXPECT_EQ(result.text, text);
    EXPECT_EQ(result.ids, ids);
    ExpectConsistent(result, reply);
  }
}

TEST(Reply, AnIncompleteCharacterAtTheEndBecomesOneReplacement) {
  Reply reply = MakeReply({.logprobs = true});
  const Result result = Feed(reply, ByteIds("a\xE6\x97"), 1);
  EXPECT_EQ(result.text, "a\xEF\xBF\xBD");
  EXPECT_EQ(result.ids.size(), 3U);
}

TEST(Reply, ReasoningIsParted) {
  for (size_t block = 1; block <= 5; ++block) {
    Reply reply = MakeReply({.think = ThinkMode::kOn, .logprobs = true});
    const Result result = Feed(reply, ByteIds(">why</think> so"), block);
    EXPECT_EQ(result.reasoning, "why");
    EXPECT_EQ(result.text, "so");
    ExpectConsistent(result, reply);
  }
}

TEST(Reply, SkippedTokensAreNotSaidAgainButCountForStops) {
  Reply reply = MakeReply({.stops = {"END"}, .logprobs = true});
  ASSERT_TRUE(reply.Skip(ByteIds("abE")).ok());
  const auto output = reply.Add(MakeDelta(ByteIds("NDx"), 0, 0));
  ASSERT_TRUE(output.ok());
  EXPECT_TRUE(output->stop_index.has_value());
  EXPECT_TRUE(output->delta.token_ids().empty());
  EXPECT_EQ(output->delta.text(), "");
}

TEST(Reply, RoundsAndLogprobsMustFitTheTokens) {
  Reply reply = MakeReply({.logprobs = true});
  v1::Delta delta = MakeDelta(ByteIds("abc"), 0, 0);
  delta.mutable_rounds(0)->set_tokens(2);
  EXPECT_EQ(reply.Add(delta).status().code(), absl::StatusCode::kInternal);
  delta = MakeDelta(ByteIds("abc"), 0, 0);
  delta.mutable_logprobs()->RemoveLast();
  EXPECT_EQ(reply.Add(delta).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(reply.ids().empty());
}

TEST(Usage, DepthsAreCountedPerRound) {
  UsageCounter counter;
  const auto add = [&counter](uint32_t drafted, uint32_t accepted, uint32_t kept) {
    v1::Round round;
    round.set_drafted(drafted);
    round.set_accepted(accepted);
    counter.AddRound(round, kept);
  };
  add(3, 3, 4);
  add(3, 1, 2);
  add(0, 0, 1);
  add(2, 2, 1);
  const v1::Usage& usage = counter.usage();
  EXPECT_EQ(usage.generated_tokens(), 8U);
  EXPECT_EQ(usage.drafted_tokens(), 8U);
  EXPECT_EQ(usage.accepted_tokens(), 6U);
  EXPECT_EQ(usage.retained_tokens(), 5U);
  EXPECT_EQ(usage.rounds(), 4U);
  EXPECT_EQ(usage.draft_rounds(), 3U);
  const auto list = [](const auto& field) {
    return std::vector<uint32_t>(field.begin(), field.end());
  };
  EXPECT_EQ(list(usage.drafted_by_depth()), (std::vector<uint32_t>{3, 3, 2}));
  EXPECT_EQ(list(usage.accepted_by_depth()), (std::vector<uint32_t>{3, 2, 1}));
}

}  // namespace
}  // namespace tandem
