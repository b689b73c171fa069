#pragma once

#include <memory>
#include <string>

#include "common/rpc/validate.h"
#include "common/tokenizer/vocabulary.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// The one model behind this router, as its first verifier told it. Immutable.
struct ServedModel {
  v1::GetModelResponse model = {};  // its drafter status is that of the first verifier
  std::string vocabulary_hash = {};
  std::shared_ptr<const Vocabulary> vocabulary = {};

  RequestLimits Limits() const {
    return {.model = model.name(),
            .vocabulary_size = model.vocabulary_size(),
            .max_prompt_tokens = model.max_prompt_tokens(),
            .max_tokens = model.max_tokens()};
  }
};

}  // namespace tandem
