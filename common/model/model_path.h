#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tandem {

// Where the parts of a model lie.
struct ModelPath {
  std::string checkpoint;  // the .pth, .safetensors or .index.json file
  std::string folder;      // the folder of the checkpoint
  std::string name;        // the stem of the file; the folder for model.safetensors and an index
  std::string vocab;  // vocab.txt, else rwkv_vocab_v20230424.txt, in the folder; empty when there
                      // is neither
  std::string hf_config;  // config.json beside a safetensors checkpoint; empty when there is none
};

// `path` is a checkpoint file or a folder that holds exactly one: one .pth, or
// model.safetensors.index.json, or model.safetensors. NOT_FOUND when there is none;
// INVALID_ARGUMENT naming the candidates when there are several.
absl::StatusOr<ModelPath> ResolveModelPath(const std::string& path);

// The last component of a path, repository or file name, without a .pth suffix: how model names are
// compared.
std::string ModelName(const std::string& path);

}  // namespace tandem
