// The embedded demo model: its vocabulary file against ids and texts stored with the model.
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/file.h"
#include "common/tokenizer/prompt.h"
#include "common/tokenizer/text_stream.h"
#include "common/tokenizer/utf8_decoder.h"
#include "common/tokenizer/vocabulary.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tandem {
namespace {

constexpr char kVocabularyPath[] = "deploy/demo-model/vocab.txt";
constexpr char kGoldenPath[] = "deploy/demo-model/golden/golden.json";
constexpr int32_t kDemoIds = 4096;

class TokenizerGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::string> text = ReadFile(kVocabularyPath, 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    absl::StatusOr<Vocabulary> parsed = Vocabulary::Parse(*text, kVocabularyPath, kDemoIds);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    vocabulary_.emplace(*std::move(parsed));
    std::ifstream golden(kGoldenPath);
    cases_ = nlohmann::json::parse(golden).at("cases");
    ASSERT_EQ(cases_.size(), 8u);
  }

  std::optional<Vocabulary> vocabulary_;
  nlohmann::json cases_;
};

TEST_F(TokenizerGolden, DemoVocabulary) {
  EXPECT_EQ(vocabulary_->size(), 4095u);
  EXPECT_EQ(vocabulary_->max_id(), 4095);
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(vocabulary_->Bytes(byte + 1), std::string(1, static_cast<char>(byte)));
  }
}

TEST_F(TokenizerGolden, PromptIds) {
  for (const auto& golden : cases_) {
    const auto ids = golden.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(vocabulary_->Encode(golden.at("text").get<std::string>()), ids) << golden.at("task");
    EXPECT_EQ(vocabulary_->Decode(ids), golden.at("text").get<std::string>());
  }
}

TEST_F(TokenizerGolden, GreedyText) {
  for (const auto& golden : cases_) {
    const auto ids = golden.at("greedy_96").get<std::vector<int32_t>>();
    const std::string text = golden.at("greedy_text").get<std::string>();
    EXPECT_EQ(ReplaceInvalidUtf8(vocabulary_->Decode(ids)), text) << golden.at("task");

    absl::StatusOr<TextStream> stream = TextStream::Create({});
    ASSERT_TRUE(stream.ok());
    std::string streamed;
    for (const int32_t id : ids) streamed += stream->Push(vocabulary_->Bytes(id)).text;
    const TextStream::Piece last = stream->Flush();
    EXPECT_EQ(streamed + last.text, text) << golden.at("task");
    EXPECT_EQ(last.tokens, 96);
  }
}

// The stored chat prompts are what the template makes of their user text.
TEST_F(TokenizerGolden, ChatPrompts) {
  std::set<std::string> seen;
  for (const auto& golden : cases_) {
    const std::string text = golden.at("text").get<std::string>();
    const std::string before = "User: ", after = "\n\nAssistant:";
    if (!absl::StartsWith(text, before) || !absl::EndsWith(text, after)) continue;
    const std::string user = text.substr(before.size(), text.size() - before.size() - after.size());
    absl::StatusOr<std::vector<int32_t>> ids =
        EncodeChat(*vocabulary_, {{.role = Role::kUser, .content = user}}, {});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden.at("ids").get<std::vector<int32_t>>()) << golden.at("task");
    seen.insert(golden.at("task").get<std::string>());
  }
  EXPECT_TRUE(seen.count("chat-en") == 1 && seen.count("chat-ja") == 1);
}

}  // namespace
}  // namespace tandem
