#include "common/base/flags.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "common/base/log.h"

namespace tandem {

void ParseServiceFlags(int argc, char** argv, const std::string& name, const std::string& usage) {
  SetLogName(name);
  absl::SetProgramUsageMessage(usage);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::fprintf(stderr, "%s: unexpected argument '%s'; see --help\n", name.c_str(), rest[1]);
    std::exit(2);
  }
}

}  // namespace tandem
