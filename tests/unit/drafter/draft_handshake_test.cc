#include "services/verifier/draft_handshake.h"

#include <gtest/gtest.h>

#include <functional>

namespace tandem {
namespace {

VerifierFacts Verifier() {
  VerifierFacts facts;
  facts.identity = {.boot_id = "boot",
                    .pid_namespace = 10,
                    .pid = 100,
                    .uid = 1000,
                    .backend = "cpu",
                    .device_uuid = ""};
  facts.model = "rwkv7-a";
  facts.layers = 12;
  facts.width = 768;
  facts.taps[0] = 3;
  facts.taps[1] = 7;
  facts.sidecar = {.kind = "mtp", .depth = 3, .window = 512, .max_drafts = 8, .hash = "ab12"};
  return facts;
}

DrafterFacts Drafter() {
  DrafterFacts facts;
  facts.identity = Verifier().identity;
  facts.identity.pid = 101;
  facts.base_model = "some/folder/rwkv7-a.pth";
  facts.layers = 12;
  facts.width = 768;
  facts.taps[0] = 3;
  facts.taps[1] = 7;
  facts.sidecar = Verifier().sidecar;
  return facts;
}

struct Case {
  const char* reason;
  const char* says;  // part of the message
  std::function<void(DrafterFacts&)> change;
};

TEST(DraftHandshakeTest, EqualFactsAreAccepted) {
  EXPECT_FALSE(CheckDrafter(Verifier(), Drafter()).has_value());
  DrafterFacts newer = Drafter();
  newer.identity.protocol_minor += 1;
  EXPECT_FALSE(CheckDrafter(Verifier(), newer).has_value());
}

TEST(DraftHandshakeTest, EveryDifferenceHasItsWord) {
  const Case cases[] = {
      {"PROTOCOL_TOO_OLD", "protocol 0", [](auto& f) { f.identity.protocol_major = 0; }},
      {"HOST_DIFFERS", "other-boot", [](auto& f) { f.identity.boot_id = "other-boot"; }},
      {"PID_NAMESPACE_DIFFERS", "11", [](auto& f) { f.identity.pid_namespace = 11; }},
      {"SAME_PID", "100", [](auto& f) { f.identity.pid = 100; }},
      {"UID_DIFFERS", "1001", [](auto& f) { f.identity.uid = 1001; }},
      {"BACKEND_DIFFERS", "cuda", [](auto& f) { f.identity.backend = "cuda"; }},
      {"GPU_DIFFERS", "GPU-1", [](auto& f) { f.identity.device_uuid = "GPU-1"; }},
      {"MODEL_MISMATCH", "rwkv7-b", [](auto& f) { f.base_model = "rwkv7-b"; }},
      {"MODEL_MISMATCH", "24 layers", [](auto& f) { f.layers = 24; }},
      {"MODEL_MISMATCH", "width 1024", [](auto& f) { f.width = 1024; }},
      {"MODEL_MISMATCH", "layers 2 and 7", [](auto& f) { f.taps[0] = 2; }},
      {"MODEL_MISMATCH", "layers 3 and 8", [](auto& f) { f.taps[1] = 8; }},
      {"MODEL_MISMATCH", "", [](auto& f) { f.sidecar.depth = 0; }},
      {"MODEL_MISMATCH", "", [](auto& f) { f.sidecar.max_drafts = -1; }},
      {"SIDECAR_DIFFERS", "eagle", [](auto& f) { f.sidecar.kind = "eagle"; }},
      {"SIDECAR_DIFFERS", "depth 4", [](auto& f) { f.sidecar.depth = 4; }},
      {"SIDECAR_DIFFERS", "window 256", [](auto& f) { f.sidecar.window = 256; }},
      {"SIDECAR_DIFFERS", "at most 7", [](auto& f) { f.sidecar.max_drafts = 7; }},
      {"SIDECAR_DIFFERS", "ab13", [](auto& f) { f.sidecar.hash = "ab13"; }},
  };
  for (const Case& c : cases) {
    DrafterFacts drafter = Drafter();
    c.change(drafter);
    const auto refusal = CheckDrafter(Verifier(), drafter);
    ASSERT_TRUE(refusal.has_value()) << c.reason << " " << c.says;
    EXPECT_EQ(refusal->reason, c.reason);
    EXPECT_NE(refusal->message.find(c.says), std::string::npos) << refusal->message;
  }
}

TEST(DraftHandshakeTest, ForceLetsNameAndLayersPassButNotShapes) {
  DrafterFacts drafter = Drafter();
  drafter.force = true;
  drafter.base_model = "rwkv7-b";
  drafter.layers = 24;
  EXPECT_FALSE(CheckDrafter(Verifier(), drafter).has_value());
  DrafterFacts wide = drafter;
  wide.width = 1024;
  EXPECT_TRUE(CheckDrafter(Verifier(), wide).has_value());
  DrafterFacts tapped = drafter;
  tapped.taps[0] = 2;
  EXPECT_TRUE(CheckDrafter(Verifier(), tapped).has_value());
  DrafterFacts retrained = drafter;
  retrained.sidecar = {.kind = "mtp", .depth = 4, .window = 256, .max_drafts = 8, .hash = "ab13"};
  EXPECT_FALSE(CheckDrafter(Verifier(), retrained).has_value());
  retrained.sidecar.kind = "eagle";
  EXPECT_TRUE(CheckDrafter(Verifier(), retrained).has_value());
  DrafterFacts foreign = drafter;
  foreign.identity.boot_id = "other";
  EXPECT_TRUE(CheckDrafter(Verifier(), foreign).has_value());
}

}  // namespace
}  // namespace tandem
