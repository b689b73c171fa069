#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::cli {

// processor, cores, memory_bytes, system and kernel of this machine.
nlohmann::json DescribeMachine();

// The first value of "key : value" lines, as in /proc/cpuinfo; empty when there is none.
std::string ValueOf(absl::string_view text, absl::string_view key);

}  // namespace tandem::cli
