#include "common/ipc/descriptors.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/ipc/identity.h"
#include "common/ipc/region.h"
#include "tests/unit/ipc/child.h"

namespace tandem::ipc {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);

std::string SocketPath() { return absl::StrCat(::testing::TempDir(), "/fds-", getpid(), ".sock"); }

// A connected socket that says nothing.
UniqueFd Connect(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

class DescriptorsTest : public ::testing::Test {
 protected:
  DescriptorsTest()
      : server_(*DescriptorServer::Start(SocketPath())),
        a_(*Region::Create("a", 4096)),
        b_(*Region::Create("b", 8192)) {
    std::memcpy(a_->data(), "memory a", 8);
  }
  std::unique_ptr<DescriptorServer> server_;
  std::unique_ptr<Region> a_;
  std::unique_ptr<Region> b_;
};

TEST_F(DescriptorsTest, PassToAnotherProcessInOrder) {
  const std::string token = server_->Offer({a_->fd(), b_->fd()});
  const std::string path = server_->path();
  Child peer([&token, &path] {
    auto fds = TakeDescriptors(path, token, 2, kTimeout);
    if (!fds.ok()) return 1;
    auto a = Region::Map(std::move((*fds)[0]), 4096);
    auto b = Region::Map(std::move((*fds)[1]), 8192);
    if (!a.ok() || !b.ok()) return 2;
    return std::memcmp((*a)->data(), "memory a", 8) == 0 ? 0 : 3;
  });
  const pid_t pid = peer.pid();
  EXPECT_EQ(peer.Join(), 0);
  const std::optional<DescriptorClaim> claim = server_->Withdraw(token);
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(claim->pid, pid);
  EXPECT_TRUE(HasEnded(claim->pidfd));
}

TEST_F(DescriptorsTest, TokenWorksOnce) {
  const std::string token = server_->Offer({a_->fd()});
  EXPECT_TRUE(TakeDescriptors(server_->path(), token, 1, kTimeout).ok());
  EXPECT_EQ(TakeDescriptors(server_->path(), token, 1, kTimeout).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(DescriptorsTest, WithdrawnAndUnknownTokensAreRefused) {
  const std::string token = server_->Offer({a_->fd()});
  EXPECT_FALSE(server_->Withdraw(token).has_value());
  for (const std::string& bad : {token, std::string(16, 'x'), std::string(16, '\0')}) {
    EXPECT_EQ(TakeDescriptors(server_->path(), bad, 1, kTimeout).status().code(),
              absl::StatusCode::kPermissionDenied);
  }
}

TEST_F(DescriptorsTest, AnotherNumberOfDescriptorsIsAnError) {
  for (const int wanted : {1, 3}) {
    const std::string token = server_->Offer({a_->fd(), b_->fd()});
    EXPECT_EQ(TakeDescriptors(server_->path(), token, wanted, kTimeout).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(DescriptorsTest, SilentPeerDelaysOthersByASecondAtMost) {
  const UniqueFd silent = Connect(server_->path());
  ASSERT_EQ(send(silent.get(), "abc", 3, 0), 3);
  const std::string token = server_->Offer({a_->fd()});
  const absl::Time start = absl::Now();
  EXPECT_TRUE(TakeDescriptors(server_->path(), token, 1, kTimeout).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
}

TEST_F(DescriptorsTest, PeerThatIsServedByNobodyGivesUp) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/deaf-", getpid(), ".sock");
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  unlink(path.c_str());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  EXPECT_EQ(TakeDescriptors(path, std::string(16, 'x'), 1, absl::Milliseconds(100)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  unlink(path.c_str());
}

TEST_F(DescriptorsTest, SocketIsForItsUserOnly) {
  struct stat info = {};
  ASSERT_EQ(stat(server_->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(DescriptorsTest, StaleSocketIsReplacedAndAFileIsNot) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/stale-", getpid(), ".sock");
  {
    UniqueFd leftover(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(leftover.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(DescriptorServer::Start(path).ok());
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fclose(file);
  EXPECT_FALSE(DescriptorServer::Start(path).ok());
  unlink(path.c_str());
  EXPECT_EQ(DescriptorServer::Start(std::string(200, 'p')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::ipc
