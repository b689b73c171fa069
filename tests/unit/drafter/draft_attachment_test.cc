#include "services/verifier/draft_attachment.h"

#include <gtest/gtest.h>

#include "tests/unit/drafter/handoff_harness.h"
#include "tests/unit/ipc/child.h"

namespace tandem {
namespace {

DraftOffer Offered(HandoffHarness& harness, const DrafterFacts& facts) {
  const auto result = harness.attachment->Hello(facts);
  if (const auto* refusal = std::get_if<DraftRefusal>(&result)) {
    ADD_FAILURE() << refusal->reason << ": " << refusal->message;
    return {};
  }
  return std::get<DraftOffer>(result);
}

std::string RefusedWith(HandoffHarness& harness, const DrafterFacts& facts) {
  const auto result = harness.attachment->Hello(facts);
  const auto* refusal = std::get_if<DraftRefusal>(&result);
  return refusal == nullptr ? "" : refusal->reason;
}

// A process that takes an offer's descriptors and then stops itself or ends.
ipc::Child Holder(const HandoffHarness& harness, const DraftOffer& offer, bool stop) {
  return ipc::Child([&harness, &offer, stop] {
    const auto fds = ipc::TakeDescriptors(harness.descriptors->path(), offer.descriptor_token, 4,
                                          absl::Seconds(5));
    if (stop && fds.ok()) raise(SIGSTOP);
    return fds.ok() ? 0 : 1;
  });
}

// Waits until the holder has taken the descriptors and stopped.
void AwaitTaken(const ipc::Child& holder) {
  int status = 0;
  ASSERT_EQ(waitpid(holder.pid(), &status, WUNTRACED), holder.pid());
  ASSERT_TRUE(WIFSTOPPED(status));
}

TEST(DraftAttachmentTest, BecomesLiveThroughTheHandshakeOnly) {
  HandoffHarness harness;
  EXPECT_EQ(harness.attachment->live_epoch(), 0u);
  EXPECT_FALSE(harness.attachment->Acquire().has_value());
  const auto peer = ScriptedPeer::Attach(harness);
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(harness.attachment->live_epoch(), peer->epoch());
  const HandoffStatus status = harness.attachment->Status();
  EXPECT_TRUE(status.attached);
  EXPECT_EQ(status.mode, "host");
  EXPECT_EQ(status.depth, 3);
  EXPECT_GT(status.round_trip_seconds, 0);
  EXPECT_GE(status.round_trip_p99_seconds, status.round_trip_seconds);
  EXPECT_EQ(harness.metrics->Attaches("ok").Value(), 1);
}

TEST(DraftAttachmentTest, RefusalsAreCountedByTheirWord) {
  HandoffHarness harness;
  DrafterFacts facts = harness.Facts();
  facts.base_model = "another-model";
  EXPECT_EQ(RefusedWith(harness, facts), "MODEL_MISMATCH");
  EXPECT_EQ(harness.metrics->Attaches("MODEL_MISMATCH").Value(), 1);
  // A refusal leaves the way free.
  EXPECT_NE(ScriptedPeer::Attach(harness), nullptr);
}

TEST(DraftAttachmentTest, WrongAnswersFailTheProof) {
  struct Case {
    const char* name;
    bool take, message, block;
  };
  for (const Case& c : {Case{"nobody took the memory", false, true, true},
                        Case{"wrong in the message", true, false, true},
                        Case{"wrong in the block", true, true, false}}) {
    HandoffHarness harness;
    const DraftOffer offer = Offered(harness, harness.Facts());
    const ipc::BlockView view = harness.blocks->View(0, offer.epoch);
    const uint64_t right =
        ipc::KeyedAnswer(offer.epoch, offer.nonce, harness.blocks->feature_nonce(0));
    MappedOffer mapped;
    if (c.take) mapped = MapOffer(harness, offer);
    view.header()->answer = right + (c.block ? 0 : 1);
    const auto refusal = harness.attachment->Prove(offer.epoch, right + (c.message ? 0 : 1));
    ASSERT_TRUE(refusal.has_value()) << c.name;
    EXPECT_EQ(refusal->reason, "NONCE_FAILED") << c.name;
    EXPECT_EQ(harness.attachment->live_epoch(), 0u);
    EXPECT_EQ(harness.metrics->Attaches("NONCE_FAILED").Value(), 1);
  }
}

TEST(DraftAttachmentTest, DescriptorsTakenByAnotherProcessFailTheProof) {
  HandoffHarness harness;
  const DraftOffer offer = Offered(harness, harness.Facts());
  ipc::Child thief = Holder(harness, offer, false);
  ASSERT_EQ(thief.Join(), 0);
  const uint64_t answer =
      ipc::KeyedAnswer(offer.epoch, offer.nonce, harness.blocks->feature_nonce(0));
  harness.blocks->View(0, offer.epoch).header()->answer = answer;
  const auto refusal = harness.attachment->Prove(offer.epoch, answer);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "NONCE_FAILED");
  EXPECT_NE(refusal->message.find("took the descriptors"), std::string::npos);
}

TEST(DraftAttachmentTest, ProofOfAnotherEpochIsAProtocolError) {
  HandoffHarness harness;
  const DraftOffer offer = Offered(harness, harness.Facts());
  EXPECT_EQ(harness.attachment->Prove(offer.epoch + 1, 0)->reason, "PROTOCOL_ERROR");
  EXPECT_EQ(harness.attachment->Prove(offer.epoch - 1, 0)->reason, "PROTOCOL_ERROR");
}

TEST(DraftAttachmentTest, SilentProbeIsTooSlow) {
  HandoffHarness harness;
  const DraftOffer offer = Offered(harness, harness.Facts());
  const MappedOffer mapped = MapOffer(harness, offer);
  harness.blocks->View(0, offer.epoch).header()->answer = mapped.answer;
  ASSERT_FALSE(harness.attachment->Prove(offer.epoch, mapped.answer).has_value());
  EXPECT_EQ(harness.attachment->Probe(offer.epoch).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(harness.metrics->Attaches("TOO_SLOW").Value(), 1);
}

TEST(DraftAttachmentTest, SecondDrafterIsBusy) {
  HandoffHarness harness;
  const DraftOffer offer = Offered(harness, harness.Facts());
  EXPECT_EQ(RefusedWith(harness, harness.Facts()), "BUSY");
  harness.attachment->End(offer.epoch, "died");
  EXPECT_EQ(RefusedWith(harness, harness.Facts()), "");
}

TEST(DraftAttachmentTest, BlockOfALivingDrafterIsNotOfferedAgain) {
  HandoffHarness harness;
  const DraftOffer first = Offered(harness, harness.Facts());
  ipc::Child zombie = Holder(harness, first, true);
  AwaitTaken(zombie);
  harness.attachment->End(first.epoch, "late");
  const DraftOffer second = Offered(harness, harness.Facts());
  ipc::Child other = Holder(harness, second, true);
  AwaitTaken(other);
  harness.attachment->End(second.epoch, "late");
  // Both blocks may still be written to.
  EXPECT_EQ(RefusedWith(harness, harness.Facts()), "BUSY");
  zombie.Kill();
  EXPECT_EQ(RefusedWith(harness, harness.Facts()), "");
}

TEST(DraftAttachmentTest, ClosedFreesTheBlock) {
  HandoffHarness harness;
  uint64_t epochs[3] = {};
  for (uint64_t& epoch : epochs) {
    const DraftOffer offer = Offered(harness, harness.Facts());
    epoch = offer.epoch;
    const MappedOffer mapped = MapOffer(harness, offer);
    harness.attachment->Closed(offer.epoch);
  }
  EXPECT_LT(epochs[0], epochs[1]);
  EXPECT_LT(epochs[1], epochs[2]);
}

TEST(DraftAttachmentTest, HelloThatClosedItsEpochGetsABlock) {
  HandoffHarness harness;
  DrafterFacts facts = harness.Facts();
  for (int i = 0; i < 5; ++i) {
    const DraftOffer offer = Offered(harness, facts);
    const MappedOffer mapped = MapOffer(harness, offer);
    harness.attachment->End(offer.epoch, "died");
    facts.closed_epoch = offer.epoch;
  }
  // Without the word both blocks are gone: this process lives.
  facts.closed_epoch = 0;
  const DraftOffer offer = Offered(harness, facts);
  const MappedOffer mapped = MapOffer(harness, offer);
  harness.attachment->End(offer.epoch, "died");
  EXPECT_EQ(RefusedWith(harness, facts), "BUSY");
}

TEST(DraftAttachmentTest, BlockThatTheEngineUsesIsNotOffered) {
  HandoffHarness harness;
  const auto peer = ScriptedPeer::Attach(harness);
  const auto attached = harness.attachment->Acquire();
  ASSERT_TRUE(attached.has_value());
  const ipc::BlockView& held = attached->view;
  harness.attachment->Closed(peer->epoch());
  // One block is left; while the engine is in the other, only that one goes round.
  for (int i = 0; i < 3; ++i) {
    const DraftOffer offer = Offered(harness, harness.Facts());
    EXPECT_NE(harness.blocks->View(1, 0).header()->epoch, held.epoch());
    EXPECT_EQ(held.header()->epoch, peer->epoch());
    harness.attachment->End(offer.epoch, "died");
  }
  harness.attachment->Release();
  const DraftOffer offer = Offered(harness, harness.Facts());
  EXPECT_EQ(held.header()->epoch, offer.epoch);
}

TEST(DraftAttachmentTest, DrainRefusesNewDrafters) {
  HandoffHarness harness;
  harness.attachment->Drain();
  EXPECT_EQ(RefusedWith(harness, harness.Facts()), "DRAINING");
}

TEST(DraftAttachmentTest, LateEventsOfAnOldEpochChangeNothing) {
  HandoffHarness harness;
  const auto first = ScriptedPeer::Attach(harness);
  harness.attachment->Closed(first->epoch());
  EXPECT_EQ(harness.metrics->Detaches("closed").Value(), 1);
  const auto second = ScriptedPeer::Attach(harness);
  harness.attachment->End(first->epoch(), "died");
  harness.attachment->Closed(first->epoch());
  harness.attachment->Condemn(first->epoch());
  EXPECT_EQ(harness.attachment->live_epoch(), second->epoch());
  EXPECT_TRUE(harness.attachment->TakeCondemned().empty());
}

}  // namespace
}  // namespace tandem
