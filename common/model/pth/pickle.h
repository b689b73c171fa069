#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem {

enum class PickleKind {
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kTuple,
  kList,
  kDict,
  kGlobal,
  kPersistent,
  kCall
};

// One value of a pickle. Values refer to each other by their index in the Pickle, so a pickle that
// contains itself is just data and nothing here recurses.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t integer = 0;     // kInt, kBool
  double real = 0;         // kFloat
  absl::string_view text;  // kText; kGlobal: "module\nname"; points into the pickle
  // kTuple, kList: the elements. kDict: key, value, key, value, ... kPersistent: the identifier.
  // kCall: the function (a kGlobal) and the tuple of its arguments.
  std::vector<uint32_t> items;
};

struct Pickle {
  std::vector<PickleValue> values;
  uint32_t root = 0;
};

// Reads a pickle of protocol 2 as torch.save writes it into plain data. Nothing is imported or
// called: a call stays a value of kind kCall. Globals other than those of a checkpoint
// (OrderedDict, the tensor rebuild functions, storage classes and element types of torch) and
// opcodes that torch.save does not write are refused by name. Memory is bounded by the size of
// `pickle`, which may have at most 16 MiB and 1 Mi values. INVALID_ARGUMENT beginning with `file`
// and the byte offset. `pickle` must outlive the result.
absl::StatusOr<Pickle> ReadPickle(absl::Span<const uint8_t> pickle, const std::string& file);

// True for a global ("module\nname") that a checkpoint may use.
bool IsCheckpointGlobal(absl::string_view global);

}  // namespace tandem
