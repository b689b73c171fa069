#pragma once

#include <string>

namespace tandem {

// Parses the command line of a service: sets the usage text, the log name and the flags, whose
// names may be spelled with dashes (--ready-file). Positional arguments and unknown flags end the
// process with one line and exit code 2.
void ParseServiceFlags(int argc, char** argv, const std::string& name, const std::string& usage);

// The environment variable, or `otherwise` where it is not set: for the default of a flag.
std::string FromEnvironment(const char* name, const char* otherwise);

}  // namespace tandem
