#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/model/config.h"

namespace tandem {

// What a verifier says of itself; constant while serving.
struct ServedModel {
  std::string instance_id;  // new for every start
  std::string version;
  std::string name;
  std::string hash;  // 16 hex digits
  ModelConfig config;
  int64_t parameters = 0;
  std::string weight_format;
  std::string backend;
  std::string schedule;
  uint32_t max_prompt_tokens = 0;
  uint32_t max_tokens = 0;
};

// The vocabulary file beside a model, as it lies there; everything empty when there is none.
struct VocabularyFile {
  std::string bytes;
  std::string hash;  // 16 hex digits
  int usable = 0;    // 1 + highest id; 0 when there is no file
};

// Only the id that opens each line is looked at; the pieces are for whoever decodes.
VocabularyFile MakeVocabularyFile(std::string bytes);

}  // namespace tandem
