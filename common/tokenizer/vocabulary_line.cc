#include "common/tokenizer/vocabulary_line.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/utf8_decoder.h"

namespace tandem {
namespace {

// Decimal digits only; nine of them at most, so that the value fits.
std::optional<int32_t> ParseNumber(absl::string_view digits) {
  int32_t value = 0;
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  for (const char c : digits) {
    if (!absl::ascii_isdigit(c)) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// The UTF-8 form of a value up to 0xFFFF; that of a surrogate is not valid.
std::string EncodeCodePoint(uint32_t code) {
  const auto continuation = [](uint32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), continuation(code)};
  return {static_cast<char>(0xE0 | code >> 12), continuation(code >> 6), continuation(code)};
}

absl::Status BadEscape(absl::string_view rest, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("unknown or cut escape \"", rest.substr(0, 2), "\", expected ", expected));
}

// The value of one escape and the bytes it takes in the literal, the backslash included.
struct Escape {
  uint32_t code = 0;
  size_t size = 0;
};

// `rest` starts with the backslash.
absl::StatusOr<Escape> ParseEscape(absl::string_view rest, bool is_bytes) {
  const absl::string_view expected =
      is_bytes ? "\\n \\t \\r \\\\ \\' or \\xNN" : "\\n \\t \\r \\\\ \\' \\xNN or \\uNNNN";
  if (rest.size() < 2) return BadEscape(rest, expected);
  switch (rest[1]) {
    case 'n':
      return Escape{.code = '\n', .size = 2};
    case 't':
      return Escape{.code = '\t', .size = 2};
    case 'r':
      return Escape{.code = '\r', .size = 2};
    case '\\':
    case '\'':
      return Escape{.code = static_cast<uint32_t>(rest[1]), .size = 2};
    default:
      break;
  }
  const size_t digits = rest[1] == 'x' ? 2 : rest[1] == 'u' && !is_bytes ? 4 : 0;
  uint32_t code = 0;
  if (digits == 0 || rest.size() < 2 + digits) return BadEscape(rest, expected);
  for (const char c : rest.substr(2, digits)) {
    if (!absl::ascii_isxdigit(c)) return BadEscape(rest, expected);
    const char lower = absl::ascii_tolower(c);
    code = code * 16 + static_cast<uint32_t>(lower <= '9' ? lower - '0' : lower - 'a' + 10);
  }
  return Escape{.code = code, .size = 2 + digits};
}

absl::StatusOr<std::string> ParseLiteral(absl::string_view literal) {
  absl::string_view body = literal;
  const bool is_bytes = !body.empty() && body.front() == 'b';
  if (is_bytes) body.remove_prefix(1);
  const char quote = body.empty() ? '\0' : body.front();
  if (body.size() < 2 || (quote != '\'' && quote != '"') || body.back() != quote) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a literal '...', \"...\" or b'...' between the first and the last space, found ",
        literal.substr(0, 40)));
  }
  body = body.substr(1, body.size() - 2);

  std::string text;
  while (!body.empty()) {
    const char c = body.front();
    if (c == '\\') {
      ASSIGN_OR_RETURN(const Escape escape, ParseEscape(body, is_bytes));
      if (is_bytes) {
        text.push_back(static_cast<char>(escape.code));
      } else {
        text += EncodeCodePoint(escape.code);
      }
      body.remove_prefix(escape.size);
      continue;
    }
    if (c == quote) return absl::InvalidArgumentError("the quote ends before the literal does");
    if (is_bytes && !absl::ascii_isascii(c)) {
      return absl::InvalidArgumentError("a b'...' literal holds a character that is not ASCII");
    }
    text.push_back(c);
    body.remove_prefix(1);
  }
  if (!is_bytes && !IsValidUtf8(text)) {
    return absl::InvalidArgumentError("the literal is not valid UTF-8, or escapes a surrogate");
  }
  return text;
}

}  // namespace

absl::StatusOr<VocabularyLine> ParseVocabularyLine(absl::string_view line) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == absl::string_view::npos || first == last) {
    return absl::InvalidArgumentError("expected `<id> <literal> <byte length>`");
  }
  const std::optional<int32_t> id = ParseNumber(line.substr(0, first));
  if (!id.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the id must be a decimal number, found ", line.substr(0, first)));
  }
  ASSIGN_OR_RETURN(std::string bytes, ParseLiteral(line.substr(first + 1, last - first - 1)));
  const std::optional<int32_t> length = ParseNumber(line.substr(last + 1));
  if (!length.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the length must be a decimal number, found ", line.substr(last + 1)));
  }
  if (bytes.empty()) return absl::InvalidArgumentError("the token is empty");
  if (bytes.size() != static_cast<size_t>(*length)) {
    return absl::InvalidArgumentError(absl::StrCat("the length field is ", *length,
                                                   ", but the token has ", bytes.size(), " bytes"));
  }
  return VocabularyLine{.id = *id, .bytes = std::move(bytes)};
}

}  // namespace tandem
