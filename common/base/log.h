#pragma once

#include <sstream>
#include <string>

namespace tandem {

enum class LogLevel { kInfo, kWarning, kError };

// The process name that opens every line; set once in main before threads start.
void SetLogName(const std::string& name);

// One line on stderr: "<UTC time> <level> <name> <file>:<line>] text". A line is written whole, by
// one write call.
class LogLine final {
 public:
  LogLine(LogLevel level, const char* file, int line);
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Swallows a stream expression so that LOG and CHECK are statements.
struct LogVoidify {
  void operator&(std::ostream&) {}
};

// A CHECK that failed: writes the line and aborts.
class CheckFailure final {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace tandem

#define TANDEM_LOG_INFO ::tandem::LogLevel::kInfo
#define TANDEM_LOG_WARNING ::tandem::LogLevel::kWarning
#define TANDEM_LOG_ERROR ::tandem::LogLevel::kError

// LOG(INFO | WARNING | ERROR) << ...
#define LOG(level) ::tandem::LogLine(TANDEM_LOG_##level, __FILE__, __LINE__).stream()
