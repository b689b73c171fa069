#include "tests/unit/router/demo_vocabulary.h"

#include "common/base/file.h"

namespace tandem {

const std::string& DemoVocabularyText() {
  static const std::string& text =
      *new std::string(ReadFile("deploy/demo-model/vocab.txt", 1 << 24).value());
  return text;
}

const Vocabulary& DemoVocabulary() {
  static const Vocabulary& vocabulary =
      *new Vocabulary(Vocabulary::Parse(DemoVocabularyText(), "vocab.txt").value());
  return vocabulary;
}

std::vector<uint32_t> Encode(const std::string& text) {
  const std::vector<int32_t> ids = DemoVocabulary().Encode(text);
  return {ids.begin(), ids.end()};
}

}  // namespace tandem
