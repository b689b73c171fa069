#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tandem::cli {

enum class Colour { kNone, kRed, kGreen, kYellow, kBlue, kMagenta, kCyan, kGrey };

// Whether text written to `fd` should be coloured: `wanted` is "always", "never", or "auto" for a
// terminal without NO_COLOR.
bool UseColour(absl::string_view wanted, int fd);

// `text` in `colour`; unchanged for kNone or when colours are off.
std::string Paint(Colour colour, absl::string_view text, bool enabled);

// Writes all of `text` at once to the file descriptor.
void WriteAll(int fd, absl::string_view text);

}  // namespace tandem::cli
