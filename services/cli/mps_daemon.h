#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::cli {

// A private daemon of NVIDIA's Multi-Process Service, under which the processes of one GPU compute
// side by side instead of in turns. No setting of the GPU is touched. One thread.
class MpsDaemon final {
 public:
  // Whether the program that starts and controls it is on the PATH.
  static bool Installed();
  // Whether the environment names a daemon already, which CUDA programs then use.
  static bool Named();
  // Points the environment where no daemon listens: the children compute without one.
  static void UseNone(const std::string& folder);

  // Starts it with pipes and logs in new folders under `folder`, and points the environment of this
  // process there, so that its children use it. UNAVAILABLE with what its program said.
  static absl::StatusOr<std::unique_ptr<MpsDaemon>> Start(const std::string& folder);
  // Asks it to quit, and kills what does not. Its clients should have ended.
  ~MpsDaemon();
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once it has ended.
  int exit_fd() const { return exit_fd_; }
  // Takes a client's work off the GPU, before it is killed: a kill in the middle of a kernel would
  // take the other clients along.
  void TerminateClient(pid_t client);
  // Notes which servers it has started, to end them should it die before them. After a client has
  // attached.
  void NoteServers();

 private:
  MpsDaemon(std::string folder, pid_t pid, int exit_fd)
      : folder_(std::move(folder)), pid_(pid), exit_fd_(exit_fd) {}
  // What it answers to one line.
  absl::StatusOr<std::string> Ask(absl::string_view line);
  bool Ended(absl::Duration timeout) const;

  std::string folder_;
  pid_t pid_;
  int exit_fd_;
  std::vector<pid_t> servers_;
};

}  // namespace tandem::cli
