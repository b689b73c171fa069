#pragma once

#include <string>

namespace tandem {

// A vocabulary file for a synthetic model: ids 1 .. 256 are the bytes, each id above a made-up word
// of its own, so that any text can be asked for and any reply be shown. As every vocabulary, it has
// no text for id 0.
std::string SyntheticVocabulary(int vocab);

}  // namespace tandem
