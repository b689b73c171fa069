#include "services/cli/terminal.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace tandem::cli {
namespace {

absl::string_view Code(Colour colour) {
  switch (colour) {
    case Colour::kNone:
      return "0";
    case Colour::kRed:
      return "31";
    case Colour::kGreen:
      return "32";
    case Colour::kYellow:
      return "33";
    case Colour::kBlue:
      return "34";
    case Colour::kMagenta:
      return "35";
    case Colour::kCyan:
      return "36";
    case Colour::kGrey:
      return "90";
  }
  return "0";
}

}  // namespace

bool UseColour(absl::string_view wanted, int fd) {
  if (wanted == "always") return true;
  if (wanted == "never") return false;
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(fd) == 1 && (no_colour == nullptr || no_colour[0] == '\0');
}

std::string Paint(Colour colour, absl::string_view text, bool enabled) {
  if (!enabled || colour == Colour::kNone || text.empty()) return std::string(text);
  return absl::StrCat("\x1b[", Code(colour), "m", text, "\x1b[0m");
}

void WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    // A closed or full output has nowhere to be reported.
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace tandem::cli
