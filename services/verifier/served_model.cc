#include "services/verifier/served_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/hash.h"

namespace tandem {

VocabularyFile MakeVocabularyFile(std::string bytes) {
  VocabularyFile file;
  for (const absl::string_view line : absl::StrSplit(bytes, '\n')) {
    int id = 0;
    if (absl::SimpleAtoi(line.substr(0, line.find(' ')), &id))
      file.usable = std::max(file.usable, id + 1);
  }
  Hasher hasher;
  hasher.Update(bytes);
  file.hash = HashHex(hasher.Digest());
  file.bytes = std::move(bytes);
  return file;
}

}  // namespace tandem
