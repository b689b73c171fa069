// Random token streams against a plain definition that looks at the whole text after every token.
#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/tokenizer/text_stream.h"
#include "gtest/gtest.h"
#include "tests/unit/tokenizer/utf8_reference.h"

namespace tandem {
namespace {

using Strings = std::vector<std::string>;

bool EndsWith(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

struct Expected {
  std::string text;    // delivered so far
  int64_t tokens = 0;  // certain so far
  std::optional<TextStream::Stop> stop;
};

// The decoded text of the first tokens and, for each of its bytes, the token bytes it came from.
struct Decoded {
  std::string text;
  std::vector<size_t> begins;  // [text bytes]
  size_t end = 0;              // token bytes decoded

  void Append(const DecodedUnit& unit) {
    text += unit.text;
    begins.resize(text.size(), unit.begin);
    end = unit.end;
  }
};

class Definition {
 public:
  Definition(const Strings& tokens, const TextStream::Options& options)
      : tokens_(tokens), options_(options) {
    for (const std::string& token : tokens_) {
      bytes_ += token;
      ends_.push_back(bytes_.size());
    }
  }

  // After `count` tokens, and after the end of the sequence if `flushed`.
  Expected After(size_t count, bool flushed) const {
    const size_t pushed_bytes = count == 0 ? 0 : ends_[count - 1];
    Decoded decoded;
    for (const DecodedUnit& unit : DecodeUtf8Reference(bytes_.substr(0, pushed_bytes))) {
      if (unit.incomplete && !flushed) break;
      decoded.Append(unit);
      if (const int stop = StopAt(decoded, count); stop >= 0) {
        return Stopped(decoded, stop, count);
      }
    }
    size_t held = 0;
    for (const std::string& stop : options_.stops) {
      for (size_t size = 1; size < stop.size() && !flushed; ++size) {
        if (EndsWith(decoded.text, stop.substr(0, size))) held = std::max(held, size);
      }
    }
    const size_t keep = decoded.text.size() - held;
    const size_t certain = held == 0 ? decoded.end : decoded.begins[keep];
    Expected expected;
    expected.text = decoded.text.substr(0, keep);
    for (size_t i = 0; i < count; ++i) expected.tokens += ends_[i] <= certain ? 1 : 0;
    return expected;
  }

 private:
  // The stop that ends at the end of `decoded` and is not declined, -1 if none. The byte that
  // completes a unit is the first byte after it when the unit is a replacement that is only then
  // known to be one.
  int StopAt(const Decoded& decoded, size_t count) const {
    size_t completed_by = decoded.end - 1;
    const std::vector<DecodedUnit> units = DecodeUtf8Reference(bytes_.substr(0, decoded.end));
    if (units.back().incomplete) completed_by = decoded.end;
    int64_t token = 1;
    while (token < static_cast<int64_t>(count) && ends_[token - 1] <= completed_by) ++token;
    if (token <= options_.min_tokens) return -1;
    int best = -1;
    for (size_t i = 0; i < options_.stops.size(); ++i) {
      if (EndsWith(decoded.text, options_.stops[i]) &&
          (best < 0 || options_.stops[i].size() > options_.stops[best].size())) {
        best = static_cast<int>(i);
      }
    }
    return best;
  }

  Expected Stopped(const Decoded& decoded, int stop, size_t count) const {
    const size_t keep = decoded.text.size() - options_.stops[stop].size();
    const size_t begin = decoded.begins[keep];
    const size_t cut = options_.include_stop ? decoded.end : begin;
    Expected expected;
    expected.text = options_.include_stop ? decoded.text : decoded.text.substr(0, keep);
    expected.stop = TextStream::Stop{.stop_index = stop};
    for (size_t i = 0; i < count; ++i) {
      const size_t token_begin = i == 0 ? 0 : ends_[i - 1];
      expected.stop->tokens_before += ends_[i] <= begin ? 1 : 0;
      expected.tokens += ends_[i] <= cut || token_begin < cut ? 1 : 0;
      if (token_begin < cut && ends_[i] > cut) expected.stop->straddled = true;
    }
    return expected;
  }

  const Strings tokens_;
  const TextStream::Options options_;
  std::string bytes_;
  std::vector<size_t> ends_;  // [tokens]
};

void ExpectEqual(const std::string& text, const TextStream::Piece& piece,
                 const Expected& expected) {
  ASSERT_EQ(text, expected.text);
  ASSERT_EQ(piece.tokens, expected.tokens);
  ASSERT_EQ(piece.stop.has_value(), expected.stop.has_value());
  if (!piece.stop.has_value()) return;
  ASSERT_EQ(piece.stop->stop_index, expected.stop->stop_index);
  ASSERT_EQ(piece.stop->tokens_before, expected.stop->tokens_before);
  ASSERT_EQ(piece.stop->straddled, expected.stop->straddled);
}

void Compare(const Strings& tokens, const TextStream::Options& options) {
  const Definition definition(tokens, options);
  TextStream stream = *TextStream::Create(options);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TextStream::Piece piece = stream.Push(tokens[i]);
    text += piece.text;
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(text, piece, definition.After(i + 1, false)));
    if (stream.ended()) return;
  }
  const TextStream::Piece piece = stream.Flush();
  text += piece.text;
  ExpectEqual(text, piece, definition.After(tokens.size(), true));
}

// Cuts `text` into tokens of random size, now and then an empty one.
Strings CutRandomly(std::mt19937& random, const std::string& text) {
  Strings tokens;
  for (size_t begin = 0; begin < text.size();) {
    const size_t size = random() % 6;
    tokens.push_back(text.substr(begin, size));
    begin += size;
  }
  return tokens;
}

TEST(TextStreamRandom, TextsWithStops) {
  std::mt19937 random(23);
  const Strings parts = {"a",      "\n",   "\n\n", "User:",    "Us",   "あ",
                         "終わり", "。\n", "😀",    "\xE3\x81", "\xFF", "\xF0\x9F"};
  const Strings stops = {"\n\nUser:", "\nUser:", "\n", "a\n",          "終わり",
                         "わ",        "😀あ",     "aa", "\xEF\xBF\xBD", "。\n\n"};
  for (int round = 0; round < 4000; ++round) {
    TextStream::Options options;
    for (size_t i = random() % 4; i > 0; --i)
      options.stops.push_back(stops[random() % stops.size()]);
    options.include_stop = random() % 2 == 0;
    options.min_tokens = random() % 3 == 0 ? static_cast<int64_t>(random() % 8) : 0;
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text += parts[random() % parts.size()];
    const Strings tokens = CutRandomly(random, text);
    ASSERT_NO_FATAL_FAILURE(Compare(tokens, options)) << "round " << round;
  }
}

TEST(TextStreamRandom, TinyAlphabetWithManyOverlaps) {
  std::mt19937 random(29);
  const auto random_string = [&random](size_t size) {
    std::string text(size, '\0');
    for (char& c : text) c = "ab"[random() % 2];
    return text;
  };
  for (int round = 0; round < 4000; ++round) {
    TextStream::Options options;
    for (size_t i = 1 + random() % 3; i > 0; --i) {
      options.stops.push_back(random_string(2 + random() % 5));
    }
    options.include_stop = random() % 2 == 0;
    options.min_tokens = static_cast<int64_t>(random() % 12);
    const Strings tokens = CutRandomly(random, random_string(30));
    ASSERT_NO_FATAL_FAILURE(Compare(tokens, options)) << "round " << round;
  }
}

TEST(TextStreamRandom, JapaneseAndEmojiSurviveEveryCut) {
  std::mt19937 random(31);
  const std::string text =
      "日本語の文章。\n絵文字😀👩‍🔬も、ｶﾅも…\n終わり";
  for (int round = 0; round < 300; ++round) {
    TextStream stream = *TextStream::Create({.stops = {"\n\nUser:", "終わる"}});
    std::string streamed;
    for (const std::string& token : CutRandomly(random, text)) {
      const std::string piece = stream.Push(token).text;
      ASSERT_EQ(piece.find("\xEF\xBF\xBD"), std::string::npos);
      streamed += piece;
    }
    ASSERT_EQ(streamed + stream.Flush().text, text);
  }
}

}  // namespace
}  // namespace tandem
