#pragma once

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "services/drafter/attach_client.h"
#include "services/verifier/draft_service.h"
#include "tests/unit/drafter/handoff_harness.h"

namespace tandem {

// A drafter as a process of its own; killed and reaped with the object.
class DrafterProcess final {
 public:
  explicit DrafterProcess(const std::vector<std::string>& command);
  ~DrafterProcess();
  DrafterProcess(const DrafterProcess&) = delete;
  DrafterProcess& operator=(const DrafterProcess&) = delete;

  void Signal(int number) const { kill(pid_, number); }
  // The exit status; -1 for a process that a signal ended.
  int Join();

 private:
  pid_t pid_ = -1;
};

// A path for a socket that no other test uses.
std::string NewSocketPath();
// The scripted drafter, attaching at `socket`.
std::vector<std::string> ScriptedCommand(const std::string& socket, int delay_ms = 0);

// HandoffHarness with its DraftService.
class ServiceHarness final {
 public:
  explicit ServiceHarness(const std::string& socket,
                          DraftDeadline::Options deadline = {.floor_seconds = 0.05},
                          double lease_seconds = 5,
                          std::unique_ptr<Backend> backend = MakeCpuBackend(1),
                          bool device = false);
  ~ServiceHarness();

  bool AwaitAttached(bool attached, double seconds = 10) const;
  // One round; fails the test where drafts are not what FakeDrafter makes of it. True where it was
  // drafted. Remembers the longest step.
  bool Step();
  // What the verifier's own sidecar is.
  static SidecarFacts Sidecar(const std::string& base_model = "some-model");
  // A stream of this process under another process id, with right facts.
  std::unique_ptr<AttachClient> Dial(uint64_t closed_epoch = 0,
                                     const std::string& base_model = "some-model") const;

  HandoffHarness handoff;
  std::string socket;
  std::unique_ptr<DraftService> service;
  double longest_step = 0;  // seconds
  int drafted_steps = 0;

 private:
  int64_t position_ = 0;
};

}  // namespace tandem
