#include "services/cli/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace tandem::cli {
namespace {

// Files of /proc have no size, so they are streamed.
std::string Slurp(const char* path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

std::string ValueOf(absl::string_view text, absl::string_view key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) == key) {
      return std::string(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return "";
}

nlohmann::json DescribeMachine() {
  utsname names = {};
  uname(&names);
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  return {{"processor", ValueOf(Slurp("/proc/cpuinfo"), "model name")},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", pages * sysconf(_SC_PAGESIZE)},
          {"system", std::string(names.sysname) + " " + names.machine},
          {"kernel", std::string(names.release)}};
}

}  // namespace tandem::cli
