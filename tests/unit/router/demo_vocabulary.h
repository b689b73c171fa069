#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/tokenizer/vocabulary.h"

namespace tandem {

// The vocabulary of the demo model: its text, and parsed.
const std::string& DemoVocabularyText();
const Vocabulary& DemoVocabulary();
std::vector<uint32_t> Encode(const std::string& text);

}  // namespace tandem
