#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/tokenizer/vocabulary.h"

namespace tandem {

// One line of a vocabulary file, the literal written the way Python's repr of bytes would: b'...',
// ASCII only.
std::string BytesLine(int32_t id, const std::string& bytes);

// A vocabulary file: the 256 single bytes as ids 1..256, then `more` (ids above 256).
std::string VocabularyText(const std::map<int32_t, std::string>& more);

// Parses VocabularyText(more), which must be good.
Vocabulary MakeVocabulary(const std::map<int32_t, std::string>& more);

// The entries of the RWKV World vocabulary that the tests of encoding and prompts need, with their
// real ids.
std::map<int32_t, std::string> WorldEntries();

}  // namespace tandem
