#include "services/cli/group.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace tandem::cli {
namespace {

constexpr char kRouter[] = "router";
constexpr char kVerifier[] = "verifier";
constexpr char kDrafter[] = "drafter";

void Append(std::vector<std::string>& command, const std::vector<std::string>& flags) {
  command.insert(command.end(), flags.begin(), flags.end());
}

void AppendFlag(std::vector<std::string>& command, absl::string_view flag,
                absl::string_view value) {
  if (!value.empty()) command.push_back(absl::StrCat(flag, "=", value));
}

}  // namespace

Group::Group(GroupOptions options, std::string runtime)
    : options_(std::move(options)), runtime_(std::move(runtime)) {}

std::string Group::Runtime(absl::string_view file) const {
  return absl::StrCat(runtime_, "/", file);
}

std::string Group::Address(const std::string& name, const std::string& wanted) const {
  const auto member = members_.find(name);
  return member == members_.end() ? wanted : member->second.address;
}

std::string Group::Metrics(const std::string& name, const std::string& wanted) const {
  const auto member = members_.find(name);
  return member == members_.end() ? wanted : member->second.metrics;
}

std::vector<std::string> Group::VerifierCommand() const {
  std::vector<std::string> command = {absl::StrCat(options_.binaries, "/tandem-verifier")};
  AppendFlag(command, "--model", options_.model);
  AppendFlag(command, "--address", Address(kVerifier, options_.verifier_address));
  AppendFlag(command, "--metrics-address", Metrics(kVerifier, options_.verifier_metrics));
  AppendFlag(command, "--backend", options_.backend);
  AppendFlag(command, "--mtp-path", options_.mtp_path);
  if (options_.mtp_force) command.push_back("--mtp-force");
  AppendFlag(command, "--handoff", options_.handoff);
  AppendFlag(command, "--draft-socket", Runtime("draft.sock"));
  AppendFlag(command, "--drain-timeout", absl::FormatDuration(options_.drain_timeout));
  AppendFlag(command, "--ready-file", Runtime("verifier.json"));
  Append(command, options_.verifier_flags);
  return command;
}

std::vector<std::string> Group::DrafterCommand() const {
  std::vector<std::string> command = {absl::StrCat(options_.binaries, "/tandem-drafter")};
  AppendFlag(command, "--model", options_.model);
  AppendFlag(command, "--socket", Runtime("draft.sock"));
  AppendFlag(command, "--metrics-address", Metrics(kDrafter, options_.drafter_metrics));
  AppendFlag(command, "--backend", options_.backend);
  AppendFlag(command, "--mtp-path", options_.mtp_path);
  if (options_.mtp_force) command.push_back("--mtp-force");
  AppendFlag(command, "--ready-file", Runtime("drafter.json"));
  Append(command, options_.drafter_flags);
  return command;
}

std::vector<std::string> Group::RouterCommand() const {
  std::vector<std::string> command = {absl::StrCat(options_.binaries, "/tandem-router")};
  AppendFlag(command, "--address", Address(kRouter, options_.address));
  AppendFlag(command, "--verifiers", Address(kVerifier, options_.verifier_address));
  AppendFlag(command, "--metrics-address", Metrics(kRouter, options_.router_metrics));
  AppendFlag(command, "--resume-timeout", absl::FormatDuration(options_.resume_timeout));
  AppendFlag(command, "--drain-timeout", absl::FormatDuration(options_.drain_timeout));
  AppendFlag(command, "--ready-file", Runtime("router.json"));
  Append(command, options_.router_flags);
  return command;
}

std::vector<ChildSpec> Group::Children() {
  std::vector<ChildSpec> children = {{.name = kVerifier,
                                      .command = [this] { return VerifierCommand(); },
                                      .ready_file = Runtime("verifier.json")}};
  if (options_.drafter) {
    children.push_back({.name = kDrafter,
                        .command = [this] { return DrafterCommand(); },
                        .ready_file = Runtime("drafter.json")});
  }
  children.push_back({.name = kRouter,
                      .command = [this] { return RouterCommand(); },
                      .ready_file = Runtime("router.json")});
  return children;
}

std::vector<std::string> Group::StopOrder() const {
  if (!options_.drafter) return {kRouter, kVerifier};
  return {kRouter, kVerifier, kDrafter};
}

std::vector<std::string> Group::Tied() const {
  if (!options_.mps || !options_.drafter) return {};
  return {kVerifier, kDrafter};
}

absl::Status Group::SetReady(absl::string_view name, pid_t pid, absl::string_view ready) {
  const auto json = nlohmann::json::parse(ready.begin(), ready.end(), nullptr, false);
  if (!json.is_object() || !json.value("address", nlohmann::json()).is_string() ||
      !json.value("metrics_address", nlohmann::json()).is_string()) {
    return absl::InternalError(
        absl::StrCat(name, " wrote a ready file without address and metrics_address: ", ready));
  }
  members_[std::string(name)] = {.pid = pid,
                                 .address = json["address"].get<std::string>(),
                                 .metrics = json["metrics_address"].get<std::string>()};
  return absl::OkStatus();
}

std::string Group::ReadyJson() const {
  nlohmann::json json = {{"pid", getpid()},
                         {"address", Address(kRouter, "")},
                         {"verifier", Address(kVerifier, "")},
                         {"backend", options_.backend},
                         {"mps", options_.mps}};
  if (mps_daemon_ > 0) json["pids"]["mps"] = mps_daemon_;
  for (const auto& [name, member] : members_) {
    json["metrics"][name] = member.metrics;
    json["pids"][name] = member.pid;
  }
  return json.dump() + "\n";
}

std::string Group::Describe() const {
  std::string text;
  for (const char* name : {kRouter, kVerifier, kDrafter}) {
    const auto member = members_.find(name);
    if (member == members_.end()) continue;
    const Member& m = member->second;
    absl::StrAppendFormat(&text, "  %-9s pid %-7d %-16s http://%s/metrics\n", name, m.pid,
                          name == kDrafter ? "(draft socket)" : m.address, m.metrics);
  }
  if (mps_daemon_ > 0) absl::StrAppendFormat(&text, "  %-9s pid %d\n", "mps", mps_daemon_);
  return text;
}

absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return absl::InternalError(absl::StrCat("cannot read /proc/self/exe: ", error.message()));
  return path.parent_path().string();
}

}  // namespace tandem::cli
