#include "common/ipc/identity.h"

#include <gtest/gtest.h>

#include "tests/unit/ipc/child.h"

namespace tandem::ipc {
namespace {

TEST(IdentityTest, ProcessesOfOneMachineDifferInThePidOnly) {
  const auto here = OwnIdentity("cpu");
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(here->pid, getpid());
  EXPECT_EQ(here->uid, getuid());
  EXPECT_EQ(here->boot_id.size(), 36u);
  Child peer([&here] {
    const auto there = OwnIdentity("cpu");
    if (!there.ok()) return 1;
    const bool same = there->boot_id == here->boot_id && there->uid == here->uid &&
                      there->pid_namespace == here->pid_namespace;
    return same && there->pid != here->pid ? 0 : 2;
  });
  EXPECT_EQ(peer.Join(), 0);
}

TEST(IdentityTest, PidfdShowsTheEndOfAProcess) {
  Child peer([] {
    pause();
    return 0;
  });
  const auto pidfd = OpenPidfd(peer.pid());
  ASSERT_TRUE(pidfd.ok()) << pidfd.status();
  EXPECT_FALSE(HasEnded(*pidfd));
  peer.Kill();
  EXPECT_TRUE(HasEnded(*pidfd));
  EXPECT_EQ(OpenPidfd(0x3ffffff).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem::ipc
