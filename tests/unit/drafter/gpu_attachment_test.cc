// An attachment by the handles of a GPU, on a backend that makes such handles without one.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "services/drafter/attach_loop.h"
#include "tests/unit/drafter/fake_drafter.h"
#include "tests/unit/drafter/handle_backend.h"
#include "tests/unit/drafter/service_harness.h"

namespace tandem {
namespace {

constexpr absl::Duration kWait = absl::Seconds(5);

std::unique_ptr<Backend> MakeHandleBackend() { return std::make_unique<HandleBackend>(); }

absl::StatusOr<std::unique_ptr<Drafter>> MakeFakeDrafter(const DrafterInputs& inputs) {
  return std::make_unique<FakeDrafter>(inputs.sizes.slots, inputs.sizes.width, inputs.sizes.vocab);
}

absl::StatusOr<std::unique_ptr<DraftSession>> Open(const AttachOffer& offer) {
  return DraftSession::Open(offer, MakeHandleBackend, MakeFakeDrafter);
}

TEST(GpuAttachmentTest, DraftsThroughHandles) {
  ServiceHarness harness(NewSocketPath(), {.floor_seconds = 5}, 5, MakeHandleBackend());
  std::atomic<bool> stop{false};
  const auto page = *MetricsPage::Create("");
  DrafterMetrics metrics(*page);
  AttachLoop loop({.socket = harness.socket,
                   .sidecar = harness.Sidecar(),
                   .make_backend = MakeHandleBackend,
                   .make_drafter = MakeFakeDrafter,
                   .backend = "cuda",
                   .device_uuid = kHarnessUuid},
                  &metrics);
  std::thread drafter([&] { loop.Run([&stop] { return stop.load(); }); });
  EXPECT_TRUE(harness.AwaitAttached(true));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(harness.Step()) << "step " << i;
  EXPECT_FALSE(harness.handoff.attachment->AwaitReturned(absl::ZeroDuration()));
  harness.service->Drain();
  EXPECT_TRUE(harness.handoff.attachment->AwaitReturned(kWait)) << "the mappings were not closed";
  stop.store(true);
  drafter.join();
}

TEST(GpuAttachmentTest, AnotherGpuIsRefused) {
  ServiceHarness harness(NewSocketPath(), {.floor_seconds = 5}, 5, MakeHandleBackend());
  DrafterFacts facts = harness.handoff.Facts();
  facts.identity.device_uuid = "GPU-00000000-0000-0000-0000-000000000002";
  const auto result = harness.handoff.attachment->Hello(facts);
  const auto* refusal = std::get_if<DraftRefusal>(&result);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->reason, "GPU_DIFFERS");
}

TEST(GpuAttachmentTest, HandlesThatDoNotFitAreNotMapped) {
  const struct {
    const char* name;
    const char* word;
    std::function<void(AttachOffer&)> change;
  } cases[] = {
      {"short features", "LAYOUT_MISMATCH", [](auto& o) { o.feature_handle.pop_back(); }},
      {"long features", "LAYOUT_MISMATCH", [](auto& o) { o.feature_handle += 'x'; }},
      {"no features", "LAYOUT_MISMATCH", [](auto& o) { o.feature_handle.clear(); }},
      {"short embedding", "LAYOUT_MISMATCH", [](auto& o) { o.embedding_handle.resize(32); }},
      {"long head", "LAYOUT_MISMATCH", [](auto& o) { o.head_handle.resize(128); }},
      {"unknown features", "GPU_NOT_VISIBLE", [](auto& o) { o.feature_handle.assign(64, '\xff'); }},
      {"bigger head", "GPU_NOT_VISIBLE", [](auto& o) { o.head_bytes += 4096; }},
      {"other memory", "NONCE_FAILED",
       [](auto& o) {
         o.feature_handle = o.embedding_handle;
         o.layout.feature_bytes = o.embedding_bytes;
         o.layout.sizes.max_rows = 8;
       }},
  };
  ServiceHarness harness(NewSocketPath(), {.floor_seconds = 5}, 5, MakeHandleBackend());
  uint64_t closed = 0;
  for (const auto& c : cases) {
    auto client = harness.Dial(closed);
    const auto offer = client->WaitOffer(kWait);
    ASSERT_TRUE(offer.ok()) << c.name << ": " << offer.status();
    EXPECT_EQ(offer->feature_handle.size(), 64u);
    EXPECT_EQ(offer->embedding_handle.size(), 64u);
    EXPECT_EQ(offer->head_handle.size(), 64u);
    AttachOffer changed = *offer;
    c.change(changed);
    const absl::Status status = Open(changed).status();
    EXPECT_EQ(status.message().substr(0, std::string(c.word).size()), c.word)
        << c.name << ": " << status;
    client->SendClosed(offer->epoch);
    closed = offer->epoch;
    client.reset();
  }
}

}  // namespace
}  // namespace tandem
