#include "common/ipc/descriptors.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/ipc/identity.h"

namespace tandem::ipc {
namespace {

constexpr size_t kTokenBytes = 16;
constexpr absl::Duration kPeerTimeout = absl::Seconds(1);
constexpr int kStopPollMs = 100;

absl::StatusOr<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path `", path, "` has ", path.size(),
                                                   " bytes, must have 1 to ",
                                                   sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// True when `fd` can be read before the deadline.
bool Readable(int fd, absl::Time deadline) {
  const int64_t ms = absl::ToInt64Milliseconds(deadline - absl::Now());
  pollfd entry = {.fd = fd, .events = POLLIN, .revents = 0};
  return ms > 0 && poll(&entry, 1, static_cast<int>(ms)) == 1;
}

bool SendDescriptors(int socket, const std::vector<int>& fds) {
  char count = static_cast<char>(fds.size());
  iovec data = {.iov_base = &count, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

std::vector<UniqueFd> Received(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

struct DescriptorServer::Impl {
  struct Entry {
    std::vector<int> fds;
    std::optional<DescriptorClaim> claim;
  };

  void Run();
  void Serve(int socket);

  std::string path;
  UniqueFd listener;
  std::atomic<bool> stop{false};
  absl::Mutex mu;
  std::map<std::string, Entry> entries ABSL_GUARDED_BY(mu);
  std::thread thread;
};

void DescriptorServer::Impl::Run() {
  while (!stop.load()) {
    pollfd entry = {.fd = listener.get(), .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, kStopPollMs) != 1) continue;
    UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) Serve(socket.get());
  }
}

void DescriptorServer::Impl::Serve(int socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != getuid()) {
    LOG(WARNING) << path << ": descriptors refused to a process of another user";
    return;
  }
  const absl::Time deadline = absl::Now() + kPeerTimeout;
  std::string token(kTokenBytes, '\0');
  size_t got = 0;
  while (got < kTokenBytes) {
    if (!Readable(socket, deadline)) return;
    const ssize_t n = recv(socket, token.data() + got, kTokenBytes - got, 0);
    if (n <= 0) return;
    got += static_cast<size_t>(n);
  }
  absl::StatusOr<UniqueFd> pidfd = OpenPidfd(peer.pid);
  if (!pidfd.ok()) return;
  absl::MutexLock lock(&mu);
  const auto found = entries.find(token);
  if (found == entries.end() || found->second.claim.has_value()) return;
  // Recorded before the descriptors leave: whoever may hold them is known.
  found->second.claim = DescriptorClaim{.pid = peer.pid, .pidfd = *std::move(pidfd)};
  if (!SendDescriptors(socket, found->second.fds)) {
    LOG(WARNING) << path << ": sending descriptors to process " << peer.pid << " failed";
  }
}

absl::StatusOr<std::unique_ptr<DescriptorServer>> DescriptorServer::Start(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(path));
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return ErrnoStatus(errno, "unix socket");
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) unlink(path.c_str());
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, absl::StrCat("binding ", path));
  }
  // Nobody can connect before listen, so the mode is right from the start.
  if (chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || listen(listener.get(), 16) != 0) {
    return ErrnoStatus(errno, absl::StrCat("listening at ", path));
  }
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->listener = std::move(listener);
  impl->thread = std::thread([raw = impl.get()] { raw->Run(); });
  return std::unique_ptr<DescriptorServer>(new DescriptorServer(std::move(impl)));
}

DescriptorServer::DescriptorServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DescriptorServer::~DescriptorServer() {
  impl_->stop.store(true);
  impl_->thread.join();
  unlink(impl_->path.c_str());
}

const std::string& DescriptorServer::path() const { return impl_->path; }

std::string DescriptorServer::Offer(std::vector<int> fds) {
  CHECK(!fds.empty() && fds.size() <= kMaxDescriptors) << fds.size() << " descriptors";
  const uint64_t random[2] = {RandomBits(), RandomBits()};
  std::string token(reinterpret_cast<const char*>(random), kTokenBytes);
  absl::MutexLock lock(&impl_->mu);
  impl_->entries[token].fds = std::move(fds);
  return token;
}

std::optional<DescriptorClaim> DescriptorServer::Withdraw(const std::string& token) {
  absl::MutexLock lock(&impl_->mu);
  const auto found = impl_->entries.find(token);
  if (found == impl_->entries.end()) return std::nullopt;
  std::optional<DescriptorClaim> claim = std::move(found->second.claim);
  impl_->entries.erase(found);
  return claim;
}

absl::StatusOr<std::vector<UniqueFd>> TakeDescriptors(const std::string& path,
                                                      const std::string& token, int count,
                                                      absl::Duration timeout) {
  ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(path));
  const absl::Time deadline = absl::Now() + timeout;
  UniqueFd server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!server.valid()) return ErrnoStatus(errno, "unix socket");
  const timeval limit = absl::ToTimeval(timeout);
  setsockopt(server.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(absl::StrCat("connecting to ", path, ": ", strerror(errno)));
  }
  if (send(server.get(), token.data(), token.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(token.size())) {
    return absl::UnavailableError(absl::StrCat(path, " closed the connection"));
  }
  if (!Readable(server.get(), deadline)) {
    return absl::DeadlineExceededError(absl::StrCat(path, " sent no descriptors"));
  }
  char announced = 0;
  iovec data = {.iov_base = &announced, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = recvmsg(server.get(), &message, MSG_CMSG_CLOEXEC);
  std::vector<UniqueFd> fds = Received(message);
  if (n <= 0) return absl::PermissionDeniedError(absl::StrCat(path, " knows no such token"));
  if (static_cast<int>(fds.size()) != count || announced != count ||
      (message.msg_flags & MSG_CTRUNC) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " sent ", fds.size(), " descriptors where ", count, " are needed"));
  }
  return fds;
}

}  // namespace tandem::ipc
