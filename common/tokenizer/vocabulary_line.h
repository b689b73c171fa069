#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

struct VocabularyLine {
  int32_t id = 0;
  std::string bytes = {};
};

// Parses `<id> <Python literal> <byte length>`; the literal lies between the first and the last
// space. Literals: '...' and "..." hold UTF-8 with the escapes \n \t \r \\ \' \xNN \uNNNN, where \x
// and \u are code points; b'...' and b"..." hold ASCII with the escapes \n \t \r \\ \' \xNN, where
// \x is a byte. INVALID_ARGUMENT for any other form, a number that is not one, an empty token, or a
// length that is not that of the token. The message does not name the line.
absl::StatusOr<VocabularyLine> ParseVocabularyLine(absl::string_view line);

}  // namespace tandem
