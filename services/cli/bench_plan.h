#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::cli {

struct BenchPrompt {
  std::string name = {};
  std::string text = {};
};

// Prose, code, lists and questions in several languages.
std::vector<BenchPrompt> BuiltInPrompts();

// One prompt per line: a JSON object with "prompt" and, if wanted, "name", or plain text. Empty
// lines do not count. INVALID_ARGUMENT naming file and line.
absl::StatusOr<std::vector<BenchPrompt>> ReadPrompts(const std::string& path);

// "1,4,16": positive, at most 1024 each. INVALID_ARGUMENT otherwise.
absl::StatusOr<std::vector<int>> ParseConcurrency(const std::string& text);

// The prompts of block `block` when `concurrency` run at a time: the list is gone through again and
// again, without a gap between blocks.
std::vector<int> BlockPrompts(int prompts, int concurrency, int block);

// Blocks that bring every prompt at least `repeats` times.
int BlockCount(int prompts, int concurrency, int repeats);

}  // namespace tandem::cli
