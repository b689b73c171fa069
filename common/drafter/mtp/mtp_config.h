#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/lanes.h"

namespace tandem {

inline constexpr int kMtpMaxWindow = 512;

// What mtp.json says.
struct MtpConfig {
  std::string base_model;
  int layers = 0;                       // L of the base model it was trained for
  int width = 0;                        // C
  std::array<int, 2> fuse_layers = {};  // f1 < f2: the residual after these layers is an input
  int depth = 0;                        // trained depth: rows of dep
  bool depth_adapter = false;           // lhd is present; without it one draft per step
  int window = 0;                       // attention window, 1 ... 512 keys
  std::string target;                   // training target, for reports
  int64_t tokens = 0;                   // training tokens, for reports

  int max_drafts() const { return depth_adapter ? kMaxDrafts : 1; }  // most per step
};

// The loaded base model, as far as a sidecar depends on it.
struct MtpBase {
  std::string name;
  int layers = 0;
  int width = 0;
  int vocab = 0;
};

// Reads mtp.json. NOT_FOUND when there is none, INVALID_ARGUMENT naming file, key, found and
// expected when it is not a sidecar of format rwkv-mtp, version 1, kind attn.
absl::StatusOr<MtpConfig> ReadMtpConfig(const std::string& path);

// Whether a sidecar of `folder` may draft for `base`. Returns one line per mismatch that `force`
// let pass. Otherwise, and for a width or fused layers that cannot fit, FAILED_PRECONDITION with
// both names and sizes.
absl::StatusOr<std::vector<std::string>> MatchMtp(const MtpConfig& config, const MtpBase& base,
                                                  bool force, const std::string& folder);

}  // namespace tandem
