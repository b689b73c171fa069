#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/cli/supervisor.h"

namespace tandem::cli {

// What `tandem up` was asked for. Flags that stay empty are left to the services' own defaults.
struct GroupOptions {
  std::string binaries = {};  // folder of tandem-router, tandem-verifier, tandem-drafter
  std::string model = {};
  std::string address = {};           // of the router
  std::string verifier_address = {};  // port 0: a free one
  std::string router_metrics = {};
  std::string verifier_metrics = {};
  std::string drafter_metrics = {};
  std::string backend = "auto";  // of verifier and drafter: auto, cpu or cuda
  bool mps = false;              // the GPU is shared through an MPS daemon
  std::string mtp_path = "auto";
  bool mtp_force = false;
  std::string handoff = {};  // between verifier and drafter: auto, host, inprocess or device
  bool drafter = true;       // false: no drafter process
  absl::Duration drain_timeout = absl::Seconds(30);
  // How long a reply may wait for a verifier that is started again.
  absl::Duration resume_timeout = absl::Minutes(1);
  // More flags, as they stand, behind the ones above.
  std::vector<std::string> router_flags = {};
  std::vector<std::string> verifier_flags = {};
  std::vector<std::string> drafter_flags = {};
};

// The three processes of one serving group: their command lines, and where they serve. An address
// with port 0 is asked for only until a process has reported its port: later starts use that port,
// so that the others and the outside world find it again.
class Group final {
 public:
  struct Member {
    pid_t pid = 0;
    std::string address = {};
    std::string metrics = {};
  };

  // `runtime` is a private folder for the draft socket and the ready files.
  Group(GroupOptions options, std::string runtime);

  // In start order: verifier, drafter, router. The Group must outlive them.
  std::vector<ChildSpec> Children();
  // Router first, the drafter last.
  std::vector<std::string> StopOrder() const;
  // Verifier and drafter where a death of the first needs a new start of the other: a server of MPS
  // takes no new client after a fault until all have ended. Else none.
  std::vector<std::string> Tied() const;

  // Takes over the text of a member's ready file. INTERNAL when it is not what services write.
  absl::Status SetReady(absl::string_view name, pid_t pid, absl::string_view ready);

  // The group has an MPS daemon of its own.
  void SetMpsDaemon(pid_t pid) { mps_daemon_ = pid; }

  const std::map<std::string, Member>& members() const { return members_; }
  // {"pid" of this process, "address", "verifier", "backend", "mps", "metrics": {...},
  // "pids": {...}} as one line.
  std::string ReadyJson() const;
  // For people: one line per process.
  std::string Describe() const;

 private:
  std::vector<std::string> VerifierCommand() const;
  std::vector<std::string> DrafterCommand() const;
  std::vector<std::string> RouterCommand() const;
  // Where `name` served last, or `wanted`.
  std::string Address(const std::string& name, const std::string& wanted) const;
  std::string Metrics(const std::string& name, const std::string& wanted) const;
  std::string Runtime(absl::string_view file) const;

  GroupOptions options_;
  std::string runtime_;
  std::map<std::string, Member> members_;
  pid_t mps_daemon_ = 0;  // 0: none of its own
};

// The folder of the running program.
absl::StatusOr<std::string> OwnFolder();

}  // namespace tandem::cli
