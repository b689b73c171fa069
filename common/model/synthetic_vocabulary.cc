#include "common/model/synthetic_vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem {
namespace {

constexpr int kBytes = 256;

}  // namespace

std::string SyntheticVocabulary(int vocab) {
  std::string text;
  for (int id = 1; id < std::min(vocab, kBytes + 1); ++id)
    absl::StrAppendFormat(&text, "%d b'\\x%02x' 1\n", id, id - 1);
  for (int id = kBytes + 1; id < vocab; ++id) {
    const std::string word = absl::StrCat(" w", id);
    absl::StrAppend(&text, id, " '", word, "' ", word.size(), "\n");
  }
  return text;
}

}  // namespace tandem
