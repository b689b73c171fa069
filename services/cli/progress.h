#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::cli {

// Says how far a long run is: on a terminal as one line that is rewritten and never longer than the
// terminal is wide, elsewhere as a new line at most every ten seconds.
class Progress final {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(10);

  explicit Progress(int fd);
  // `now` on any clock that does not go back.
  void Show(absl::string_view text, absl::Duration now);
  void Show(absl::string_view text);
  // Clears the line of a terminal.
  void End();

 private:
  int fd_;
  bool terminal_;
  absl::Duration next_ = -absl::InfiniteDuration();
};

}  // namespace tandem::cli
