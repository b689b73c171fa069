#include "common/base/log.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tandem {
namespace {

std::string& LogName() {
  static std::string* name = new std::string("tandem");
  return *name;
}

const char* Basename(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

void WriteLine(std::string line) {
  line.push_back('\n');
  // A failed write to stderr has nowhere to be reported.
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, line.data(), line.size());
}

std::string Prefix(const char* level, const char* file, int line) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ ", absl::Now(), absl::UTCTimeZone()) + level + " " +
         LogName() + " " + Basename(file) + ":" + std::to_string(line) + "] ";
}

}  // namespace

void SetLogName(const std::string& name) { LogName() = name; }

LogLine::LogLine(LogLevel level, const char* file, int line) {
  constexpr const char* kNames[] = {"INFO", "WARNING", "ERROR"};
  stream_ << Prefix(kNames[static_cast<int>(level)], file, line);
}

LogLine::~LogLine() { WriteLine(stream_.str()); }

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << Prefix("FATAL", file, line) << "CHECK failed: " << condition << ' ';
}

CheckFailure::~CheckFailure() {
  WriteLine(stream_.str());
  std::abort();
}

}  // namespace tandem
