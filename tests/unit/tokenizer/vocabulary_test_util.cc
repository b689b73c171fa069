#include "tests/unit/tokenizer/vocabulary_test_util.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace tandem {

std::string BytesLine(int32_t id, const std::string& bytes) {
  std::string literal;
  for (const char c : bytes) {
    absl::StrAppend(&literal, absl::StrFormat("\\x%02x", static_cast<unsigned char>(c)));
  }
  return absl::StrCat(id, " b'", literal, "' ", bytes.size(), "\n");
}

std::string VocabularyText(const std::map<int32_t, std::string>& more) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    absl::StrAppend(&text, BytesLine(byte + 1, std::string(1, static_cast<char>(byte))));
  }
  for (const auto& [id, bytes] : more) absl::StrAppend(&text, BytesLine(id, bytes));
  return text;
}

Vocabulary MakeVocabulary(const std::map<int32_t, std::string>& more) {
  absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Parse(VocabularyText(more), "test");
  CHECK_OK(vocabulary.status());
  return *std::move(vocabulary);
}

std::map<int32_t, std::string> WorldEntries() {
  return {
      {261, "\n\n"},     {263, "\r\n"},        {295, " <"},           {754, "</"},
      {2003, "kv"},      {2090, "of"},         {2172, "rw"},          {3328, "\n\n\n"},
      {3336, " \n\n"},   {5439, "></"},        {5585, "Ass"},         {6884, "```"},
      {7463, "end"},     {10080, "。"},        {21214, " ```"},       {24281, "User"},
      {26060, "json"},   {27139, "text"},      {28324, "…\n"},        {28329, "。\n"},
      {28331, "，\n"},   {29956, " User"},     {35762, "think"},      {40812, "System"},
      {41693, "istant"}, {58464, "tokenizer"}, {58683, " Assistant"},
  };
}

}  // namespace tandem
