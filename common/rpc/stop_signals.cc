#include "common/rpc/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "common/base/check.h"

namespace tandem {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

void Add(int event_fd) {
  const uint64_t one = 1;
  CHECK(write(event_fd, &one, sizeof(one)) == sizeof(one)) << "eventfd";
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = StopSet();
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0) << "pthread_sigmask";
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  raise_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK(signal_fd_ >= 0 && raise_fd_ >= 0 && wake_fd_ >= 0) << "no descriptors are left";
}

StopSignals::~StopSignals() {
  close(signal_fd_);
  close(raise_fd_);
  close(wake_fd_);
}

StopSignals::Event StopSignals::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  pollfd fds[3] = {{.fd = signal_fd_, .events = POLLIN, .revents = 0},
                   {.fd = raise_fd_, .events = POLLIN, .revents = 0},
                   {.fd = wake_fd_, .events = POLLIN, .revents = 0}};
  for (;;) {
    const absl::Duration left =
        std::clamp(deadline - absl::Now(), absl::ZeroDuration(), absl::Hours(1));
    const int ready =
        poll(fds, 3,
             static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    CHECK(ready >= 0 || errno == EINTR) << "poll";
    signalfd_siginfo info;
    uint64_t count = 0;
    if (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) return Event::kSignal;
    if (read(raise_fd_, &count, sizeof(count)) == sizeof(count)) return Event::kSignal;
    if (read(wake_fd_, &count, sizeof(count)) == sizeof(count)) return Event::kWake;
    if (absl::Now() >= deadline) return Event::kTimeout;
  }
}

void StopSignals::Raise() { Add(raise_fd_); }

void StopSignals::Wake() { Add(wake_fd_); }

}  // namespace tandem
