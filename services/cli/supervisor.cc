#include "services/cli/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace tandem::cli {
namespace {

constexpr absl::Duration kReadyPoll = absl::Milliseconds(20);
constexpr size_t kMaxReadyBytes = 64 << 10;
// What a signalfd delivers per signal.
constexpr size_t kStopEventBytes = 128;

absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

Supervisor::Supervisor(Options options) : options_(std::move(options)) {
  CHECK_EQ(options_.children.size(), options_.stop_order.size());
  for (ChildSpec& spec : options_.children) {
    children_.push_back(std::make_unique<Child>());
    Child& child = *children_.back();
    child.spec = std::move(spec);
    child.tied = absl::c_linear_search(options_.tied, child.spec.name);
  }
}

absl::Status Supervisor::Run() {
  const absl::Status served = Serve();
  const absl::Status stopped = StopAll();
  return served.ok() ? stopped : served;
}

absl::Status Supervisor::Serve() {
  while (stop_events_ == 0) {
    bool ready = true;
    for (auto& child : children_) {
      RETURN_IF_ERROR(Advance(*child));
      ready = ready && child->was_ready;
      if (!ready) break;
    }
    if (ready && !all_ready_) {
      all_ready_ = true;
      RETURN_IF_ERROR(options_.on_all_ready());
    }
    Poll(NextTimeout());
    CheckGround();
    for (auto& child : children_) {
      if (child->process != nullptr && SteadyNow() >= child->kill_at) Kill(*child);
      if (const auto exit = Collect(*child)) RETURN_IF_ERROR(HandleExit(*child, *exit));
    }
  }
  return absl::OkStatus();
}

absl::Status Supervisor::Advance(Child& child) {
  if (child.process == nullptr) {
    if (SteadyNow() < child.restart_at || (child.tied && reunion_ && TiedRun())) {
      return absl::OkStatus();
    }
    return Start(child);
  }
  return child.ready ? absl::OkStatus() : CheckReady(child);
}

absl::Status Supervisor::CheckReady(Child& child) {
  const auto text = ReadFile(child.spec.ready_file, kMaxReadyBytes);
  if (text.ok()) {
    child.ready = child.was_ready = true;
    return options_.on_ready(child.spec.name, child.process->pid(), *text);
  }
  if (SteadyNow() - child.started < options_.start_timeout) return absl::OkStatus();
  if (!child.was_ready) {
    return absl::DeadlineExceededError(absl::StrCat(child.spec.name, " was not ready after ",
                                                    absl::FormatDuration(options_.start_timeout),
                                                    "; its last line: ", child.last_line));
  }
  options_.on_event(child.spec.name, "not ready in time, killed");
  Kill(child);
  return absl::OkStatus();
}

absl::Status Supervisor::Start(Child& child) {
  if (child.tied) reunion_ = false;
  if (child.tied && ground_lost_) {
    RETURN_IF_ERROR(options_.renew_ground());
    ground_lost_ = false;
  }
  unlink(child.spec.ready_file.c_str());
  ASSIGN_OR_RETURN(child.process, ChildProcess::Start(child.spec.command()));
  child.started = SteadyNow();
  child.output_open = true;
  child.ready = false;
  child.kill_at = absl::InfiniteDuration();
  options_.on_event(child.spec.name, absl::StrCat("started, pid ", child.process->pid()));
  return absl::OkStatus();
}

absl::Duration Supervisor::NextTimeout() const {
  absl::Duration timeout = absl::InfiniteDuration();
  for (const auto& child : children_) {
    if (child->process == nullptr) {
      const bool waits_for_others =
          (!child->was_ready && !all_ready_) || (child->tied && reunion_ && TiedRun());
      if (!waits_for_others) timeout = std::min(timeout, child->restart_at - SteadyNow());
    } else if (!child->ready) {
      timeout = std::min(timeout, kReadyPoll);
    }
    if (child->process != nullptr) timeout = std::min(timeout, child->kill_at - SteadyNow());
  }
  return std::max(timeout, absl::ZeroDuration());
}

void Supervisor::Poll(absl::Duration timeout) {
  // A ground that is known to be lost would wake poll for ever; poll ignores -1.
  const int ground_fd = ground_lost_ ? -1 : options_.ground_fd();
  std::vector<pollfd> fds = {{.fd = options_.stop_fd, .events = POLLIN, .revents = 0},
                             {.fd = ground_fd, .events = POLLIN, .revents = 0}};
  for (const auto& child : children_) {
    if (child->process == nullptr) continue;
    fds.push_back({.fd = child->process->exit_fd(), .events = POLLIN, .revents = 0});
    // A closed pipe would wake poll for ever.
    if (!child->output_open) continue;
    fds.push_back({.fd = child->process->output_fd(), .events = POLLIN, .revents = 0});
  }
  const bool forever = timeout == absl::InfiniteDuration();
  // Rounded up, so that a deadline has passed when poll returns.
  const int ms = forever ? -1 : static_cast<int>(absl::ToInt64Milliseconds(timeout)) + 1;
  if (poll(fds.data(), fds.size(), ms) <= 0) return;
  if (fds[0].revents != 0) {
    char event[kStopEventBytes];
    if (read(options_.stop_fd, event, sizeof(event)) > 0) ++stop_events_;
  }
  if (fds[1].revents != 0) ground_lost_ = true;
  for (auto& child : children_) Pump(*child);
}

void Supervisor::Pump(Child& child) {
  if (child.process == nullptr) return;
  char buffer[16 << 10];
  for (;;) {
    const ssize_t n = read(child.process->output_fd(), buffer, sizeof(buffer));
    if (n == 0) child.output_open = false;
    if (n <= 0) return;
    for (std::string& line : child.lines.Append({buffer, static_cast<size_t>(n)})) {
      options_.on_line(child.spec.name, line);
      child.last_line = std::move(line);
    }
  }
}

std::optional<ChildProcess::Exit> Supervisor::Collect(Child& child) {
  if (child.process == nullptr) return std::nullopt;
  const auto exit = child.process->Reap();
  if (!exit) return std::nullopt;
  Pump(child);
  if (std::string rest = child.lines.Flush(); !rest.empty()) {
    options_.on_line(child.spec.name, rest);
    child.last_line = std::move(rest);
  }
  child.process = nullptr;
  return exit;
}

void Supervisor::CheckGround() {
  if (ground_lost_ && !reunion_) EndTied(absl::ZeroDuration());
}

void Supervisor::EndTied(absl::Duration limit) {
  reunion_ = true;
  for (auto& child : children_) {
    if (!child->tied || child->process == nullptr) continue;
    options_.on_event(child->spec.name, "asked to end, to start anew");
    child->process->Signal(SIGTERM);
    child->kill_at = std::min(child->kill_at, SteadyNow() + limit);
  }
}

bool Supervisor::TiedRun() const {
  return absl::c_any_of(children_,
                        [](const auto& child) { return child->tied && child->process != nullptr; });
}

void Supervisor::Kill(Child& child) {
  child.kill_at = absl::InfiniteDuration();
  options_.before_kill(child.spec.name, child.process->pid());
  child.process->Signal(SIGKILL);
}

absl::Status Supervisor::HandleExit(Child& child, const ChildProcess::Exit& exit) {
  const bool asked = child.tied && reunion_;
  if (!child.was_ready && !asked) return StartFailure(child, exit);
  if (!asked && child.tied && child.spec.name == options_.tied.front()) {
    EndTied(options_.tied_limit);
  }
  const absl::Duration delay =
      asked ? absl::ZeroDuration() : child.delay.Next(SteadyNow() - child.started);
  child.restart_at = SteadyNow() + delay;
  options_.on_event(child.spec.name,
                    absl::StrCat("ended with ", DescribeExit(exit), ", starts again in ",
                                 absl::FormatDuration(delay)));
  return absl::OkStatus();
}

absl::Status Supervisor::StartFailure(const Child& child, const ChildProcess::Exit& exit) const {
  const std::string message =
      absl::StrCat(child.spec.name, " could not start (", DescribeExit(exit),
                   "): ", child.last_line.empty() ? "it said nothing" : child.last_line);
  return exit.code == 2 ? absl::InvalidArgumentError(message) : absl::UnavailableError(message);
}

absl::Status Supervisor::StopAll() {
  stop_events_ = std::min(stop_events_, 1);
  absl::Status status;
  for (const std::string& name : options_.stop_order) {
    const auto child = std::find_if(children_.begin(), children_.end(),
                                    [&](const auto& c) { return c->spec.name == name; });
    CHECK(child != children_.end()) << name;
    status.Update(Stop(**child));
  }
  return status;
}

absl::Status Supervisor::Stop(Child& child) {
  if (child.process == nullptr) return absl::OkStatus();
  options_.on_event(child.spec.name, "asked to end");
  child.process->Signal(SIGTERM);
  const absl::Duration deadline = SteadyNow() + options_.stop_timeout;
  std::optional<ChildProcess::Exit> exit;
  bool killed = false;
  while (!(exit = CollectWhileStopping(child))) {
    Poll(killed ? absl::InfiniteDuration()
                : std::max(deadline - SteadyNow(), absl::ZeroDuration()));
    if (!killed && (stop_events_ > 1 || SteadyNow() >= deadline)) {
      killed = true;
      Kill(child);
    }
  }
  if (killed) {
    return absl::DeadlineExceededError(
        absl::StrCat(child.spec.name, " was killed: ",
                     stop_events_ > 1 ? "a second stop was asked for" : "it did not end in time"));
  }
  // A child that does not serve yet may not have its own SIGTERM handling yet.
  const bool early = !child.ready && exit->signal == SIGTERM;
  if (exit->clean() || early) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(child.spec.name, " ended with ", DescribeExit(*exit),
                                         " when asked to end; its last line: ", child.last_line));
}

std::optional<ChildProcess::Exit> Supervisor::CollectWhileStopping(Child& stopping) {
  std::optional<ChildProcess::Exit> result;
  for (auto& child : children_) {
    const auto exit = Collect(*child);
    if (!exit) continue;
    options_.on_event(child->spec.name, absl::StrCat("ended with ", DescribeExit(*exit)));
    if (child.get() == &stopping) result = exit;
  }
  return result;
}

}  // namespace tandem::cli
