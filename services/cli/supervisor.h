#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/cli/child_process.h"
#include "services/cli/line_buffer.h"
#include "services/cli/restart_delay.h"

namespace tandem::cli {

struct ChildSpec {
  std::string name = {};
  // Program and arguments, asked for before every start.
  std::function<std::vector<std::string>()> command = {};
  // The child writes it once it serves. Removed before every start.
  std::string ready_file = {};
};

// Keeps a group of child processes alive until it is told to stop. One thread; everything runs
// inside Run.
class Supervisor final {
 public:
  struct Options {
    // In start order: the first start of each waits until the one before is ready.
    std::vector<ChildSpec> children = {};
    // Every name once. Each is asked to end (SIGTERM) when the one before has ended.
    std::vector<std::string> stop_order = {};
    // For a child to become ready, and to end.
    absl::Duration start_timeout = absl::Minutes(5);
    absl::Duration stop_timeout = absl::Seconds(40);
    // Readable: stop in order; one more read of it: kill all at once. A signalfd or a pipe, of
    // which up to 128 bytes are one event.
    int stop_fd = -1;
    // Children that live and die together: when the first of them ends, the others are asked to end
    // as well, are killed after `tied_limit`, and none starts again before all have ended.
    std::vector<std::string> tied = {};
    absl::Duration tied_limit = absl::Seconds(3);
    // What the tied children live on: a descriptor that is readable once it has ended (-1:
    // nothing), upon which they are killed at once, and its start, before they are started again.
    std::function<int()> ground_fd = [] { return -1; };
    std::function<absl::Status()> renew_ground = [] { return absl::OkStatus(); };
    // Before a child is killed.
    std::function<void(absl::string_view name, pid_t pid)> before_kill = [](absl::string_view,
                                                                            pid_t) {};
    // A line that a child wrote.
    std::function<void(absl::string_view name, absl::string_view line)> on_line = {};
    // What the supervisor has to say about a child.
    std::function<void(absl::string_view name, absl::string_view message)> on_event = {};
    // A child became ready, at the first start or a later one; the text of its ready file.
    std::function<absl::Status(absl::string_view name, pid_t pid, absl::string_view ready)>
        on_ready = {};
    // All are ready for the first time.
    std::function<absl::Status()> on_all_ready = {};
  };

  explicit Supervisor(Options options);

  // Starts the group; a child that dies after it was ready once is started again after
  // RestartDelay. Returns once all children have ended. OK after a stop that every child followed
  // in time with exit code 0. INVALID_ARGUMENT when a child refused to start with exit code 2,
  // UNAVAILABLE when one failed to start otherwise, DEADLINE_EXCEEDED when one was not ready or did
  // not end in time, ABORTED when one ended badly; the message names the child and its last line.
  absl::Status Run();

 private:
  struct Child {
    ChildSpec spec;
    std::unique_ptr<ChildProcess> process;  // null: not running
    LineBuffer lines;
    std::string last_line;
    RestartDelay delay;
    absl::Duration started;     // on the steady clock
    absl::Duration restart_at;  // when not running
    absl::Duration kill_at = absl::InfiniteDuration();
    bool tied = false;
    bool output_open = false;
    bool ready = false;      // since the last start
    bool was_ready = false;  // since the first
  };

  absl::Status Serve();
  absl::Status Advance(Child& child);
  absl::Status CheckReady(Child& child);
  absl::Status Start(Child& child);
  // SIGKILL, after before_kill.
  void Kill(Child& child);
  // The tied children have to end, at the latest after `limit`.
  void EndTied(absl::Duration limit);
  bool TiedRun() const;
  // The ground of the tied children has gone.
  void CheckGround();
  absl::Status StopAll();
  absl::Status Stop(Child& child);
  // The end of `stopping`; others may end meanwhile.
  std::optional<ChildProcess::Exit> CollectWhileStopping(Child& stopping);
  // Waits for output, an end, a stop event or `timeout`.
  void Poll(absl::Duration timeout);
  void Pump(Child& child);
  // Reaps a child that has ended, with all of its output.
  std::optional<ChildProcess::Exit> Collect(Child& child);
  absl::Status HandleExit(Child& child, const ChildProcess::Exit& exit);
  absl::Duration NextTimeout() const;
  absl::Status StartFailure(const Child& child, const ChildProcess::Exit& exit) const;

  Options options_;
  std::vector<std::unique_ptr<Child>> children_;
  bool reunion_ = false;  // the tied children end, to start again together
  bool ground_lost_ = false;
  int stop_events_ = 0;
  bool all_ready_ = false;
};

}  // namespace tandem::cli
