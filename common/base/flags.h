#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tandem {

// Parses the command line of a service: sets the usage text, the log name and the flags, whose
// names may be spelled with dashes (--ready-file). Positional arguments and unknown flags end the
// process with one line and exit code 2.
void ParseServiceFlags(int argc, char** argv, const std::string& name, const std::string& usage);

// The environment variable, or `otherwise` where it is not set: for the default of a flag.
std::string FromEnvironment(const char* name, const char* otherwise);

// INVALID_ARGUMENT "--<name>=<value>: must be from <low> to <high>"; `name` as in the code.
absl::Status CheckFlag(const std::string& name, int64_t value, int64_t low, int64_t high);
// The same for a time-out that has to be above 0.
absl::Status CheckPositive(const std::string& name, absl::Duration value);

}  // namespace tandem
