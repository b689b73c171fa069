// The handshake over the wire, and the drafter's own checks of an offer.
#include "services/verifier/draft_service.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "services/drafter/draft_session.h"
#include "tests/unit/drafter/fake_drafter.h"
#include "tests/unit/drafter/service_harness.h"

namespace tandem {
namespace {

constexpr absl::Duration kWait = absl::Seconds(5);

int OpenDescriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Resident memory in MiB.
double ResidentMiB() {
  long size = 0;
  long resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  EXPECT_EQ(fscanf(file, "%ld %ld", &size, &resident), 2);
  fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

absl::StatusOr<std::unique_ptr<DraftSession>> Open(const AttachOffer& offer) {
  return DraftSession::Open(
      offer, [] { return MakeCpuBackend(1); },
      [](const DrafterInputs& inputs) -> absl::StatusOr<std::unique_ptr<Drafter>> {
        return std::make_unique<FakeDrafter>(inputs.sizes.slots, inputs.sizes.width,
                                             inputs.sizes.vocab);
      });
}

TEST(DraftServiceTest, SocketIsForItsUserOnly) {
  ServiceHarness harness(NewSocketPath());
  struct stat info = {};
  ASSERT_EQ(stat(harness.socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(DraftServiceTest, SocketThatCannotBeBoundFailsTheStart) {
  HandoffHarness handoff;
  const auto started = DraftService::Start(
      {.socket = "/nonexistent/folder/draft.sock", .layout = handoff.blocks->layout()},
      handoff.attachment.get());
  EXPECT_FALSE(started.ok());
  EXPECT_NE(started.status().message().find("/nonexistent/folder"), std::string::npos);
}

TEST(DraftServiceTest, NoVerifierIsUnavailable) {
  AttachClient client(NewSocketPath(), {});
  EXPECT_EQ(client.WaitOffer(kWait).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(client.over());
}

TEST(DraftServiceTest, RefusalReachesTheDrafterWithItsWord) {
  ServiceHarness harness(NewSocketPath());
  const auto client = harness.Dial(0, "another-model");
  const absl::Status status = client->WaitOffer(kWait).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message().substr(0, 15), "MODEL_MISMATCH:");
}

TEST(DraftServiceTest, WrongProofIsRefused) {
  ServiceHarness harness(NewSocketPath());
  const auto client = harness.Dial();
  const auto offer = client->WaitOffer(kWait);
  ASSERT_TRUE(offer.ok()) << offer.status();
  const auto session = Open(*offer);
  ASSERT_TRUE(session.ok()) << session.status();
  client->SendProof(offer->epoch, (*session)->answer() ^ 1, offer->lease_seconds);
  for (int i = 0; i < 500 && !client->over(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(client->status().message().substr(0, 13), "NONCE_FAILED:");
}

TEST(DraftServiceTest, ProofThatAnswersNoProbeIsTooSlow) {
  ServiceHarness harness(NewSocketPath());
  const auto client = harness.Dial();
  const auto offer = client->WaitOffer(kWait);
  ASSERT_TRUE(offer.ok()) << offer.status();
  const auto session = Open(*offer);
  ASSERT_TRUE(session.ok()) << session.status();
  client->SendProof(offer->epoch, (*session)->answer(), offer->lease_seconds);
  for (int i = 0; i < 500 && !client->over(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(client->status().message().substr(0, 9), "TOO_SLOW:");
  EXPECT_FALSE(harness.handoff.port->Attached());
}

TEST(DraftServiceTest, OffersThatDoNotFitAreNotMapped) {
  const struct {
    const char* name;
    std::function<void(AttachOffer&)> change;
  } cases[] = {
      {"layout version", [](auto& o) { ++o.layout_version; }},
      {"control size", [](auto& o) { o.layout.control_bytes += 4096; }},
      {"smaller control", [](auto& o) { o.layout.control_bytes -= 4096; }},
      {"feature size", [](auto& o) { o.layout.feature_bytes += 4096; }},
      {"offset", [](auto& o) { o.layout.offsets[ipc::Layout::kDrafts] = ~uint64_t{127}; }},
      {"feature offset", [](auto& o) { o.layout.offsets[ipc::Layout::kFeatures] += 1 << 20; }},
      {"rows", [](auto& o) { o.layout.sizes.max_rows *= 2; }},
      {"negative lanes", [](auto& o) { o.layout.sizes.max_lanes = -1; }},
      {"embedding", [](auto& o) { o.embedding_bytes -= 4; }},
      {"bigger embedding", [](auto& o) { o.embedding_bytes += 4; }},
      {"head", [](auto& o) { o.head_bytes /= 2; }},
      {"head format", [](auto& o) { o.head_format = 77; }},
      {"nonce", [](auto& o) { ++o.nonce; }},
      {"epoch", [](auto& o) { ++o.epoch; }},
      {"token", [](auto& o) { o.descriptor_token[3] ^= 1; }},
      {"socket", [](auto& o) { o.descriptor_socket += "x"; }},
  };
  ServiceHarness harness(NewSocketPath());
  uint64_t closed = 0;
  for (const auto& c : cases) {
    auto client = harness.Dial(closed);
    const auto offer = client->WaitOffer(kWait);
    ASSERT_TRUE(offer.ok()) << c.name << ": " << offer.status();
    AttachOffer changed = *offer;
    c.change(changed);
    EXPECT_FALSE(Open(changed).ok()) << c.name;
    client->SendClosed(offer->epoch);
    closed = offer->epoch;
    // The verifier hears of the end a moment later.
    client.reset();
  }
}

TEST(DraftServiceTest, ThousandAttachesThatVanishLeaveNothing) {
  ServiceHarness harness(NewSocketPath());
  uint64_t closed = 0;
  int busy = 0;
  const auto cycle = [&] {
    auto client = harness.Dial(closed);
    const auto offer = client->WaitOffer(kWait);
    if (!offer.ok()) {
      // The stream before is not quite over yet.
      ASSERT_EQ(offer.status().message().substr(0, 5), "BUSY:") << offer.status();
      ++busy;
      return;
    }
    const auto fds =
        ipc::TakeDescriptors(offer->descriptor_socket, offer->descriptor_token, 4, kWait);
    ASSERT_TRUE(fds.ok()) << fds.status();
    // No proof, no closed: only the next hello says that the mappings are gone.
    closed = offer->epoch;
  };
  for (int i = 0; i < 100; ++i) cycle();
  const int descriptors = OpenDescriptors();
  [[maybe_unused]] const double memory = ResidentMiB();
  for (int i = 0; i < 1000; ++i) cycle();
  EXPECT_LE(OpenDescriptors(), descriptors + 8);
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory for a while
  EXPECT_LT(ResidentMiB(), memory + 8);
#endif
  EXPECT_LT(busy, 500);
  EXPECT_FALSE(harness.handoff.port->Attached());
}

}  // namespace
}  // namespace tandem
