#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/child_process.h"
#include "services/cli/runtime_directory.h"

namespace tandem::cli {

// A `tandem up` of this program's own, on free ports, for as long as the object lives. Of its log
// only the last line is kept, for errors.
class GroupProcess final {
 public:
  // Waits until the group is ready. `flags` go to `tandem up`.
  static absl::StatusOr<std::unique_ptr<GroupProcess>> Start(const std::string& model,
                                                             const std::vector<std::string>& flags);
  // Ends the group in order.
  ~GroupProcess();
  GroupProcess(const GroupProcess&) = delete;
  GroupProcess& operator=(const GroupProcess&) = delete;

  const std::string& address() const { return address_; }
  const std::string& verifier() const { return verifier_; }

 private:
  explicit GroupProcess(RuntimeDirectory runtime) : runtime_(std::move(runtime)) {}
  absl::Status WaitReady();
  absl::Status ReadReadyFile(const std::string& text);
  void StartLogReader();

  RuntimeDirectory runtime_;
  std::unique_ptr<ChildProcess> process_;
  std::thread log_reader_;
  std::string last_line_;  // written by the reader until it ends
  std::string address_;
  std::string verifier_;
};

}  // namespace tandem::cli
