#include "tests/unit/drafter/handoff_harness.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "kernels/linear/linear.h"
#include "tests/unit/drafter/fake_drafter.h"

namespace tandem {
namespace {

std::string SocketPath() {
  static std::atomic<int> count{0};
  return absl::StrCat(::testing::TempDir(), "/handoff-", getpid(), "-", ++count, ".sock");
}

const SidecarTraits kSidecar = {
    .kind = "mtp", .depth = 3, .window = 512, .max_drafts = kMaxDrafts, .hash = "1234"};

}  // namespace

HandoffHarness::HandoffHarness(DraftDeadline::Options deadline, double release_window_seconds,
                               std::unique_ptr<Backend> of, bool device, uint64_t first_step)
    : backend(std::move(of)),
      probe_backend(device ? MakeCpuBackend(1) : nullptr),
      probe(device ? DeviceProbe::Create(probe_backend.get()) : nullptr),
      page(*MetricsPage::Create("")),
      metrics(std::make_unique<VerifierMetrics>(*page)),
      blocks(*DraftBlocks::Create(backend.get(), kTestSizes, device)),
      descriptors(*ipc::DescriptorServer::Start(SocketPath())),
      embedding(
          *ipc::Region::Create("embedding", sizeof(float) * kTestSizes.vocab * kTestSizes.width)),
      head(*ipc::Region::Create(
          "head", backend->PackedBytes({.rows = kTestSizes.vocab, .cols = kTestSizes.width}))) {
  DraftAttachment::Options options;
  options.facts.identity = Identity();
  options.facts.identity.pid = 1;
  options.facts.model = "some-model";
  options.facts.layers = 6;
  options.facts.width = kTestSizes.width;
  options.facts.taps[0] = 1;
  options.facts.taps[1] = 3;
  if (options.facts.identity.backend == "cpu") {
    options.weight_descriptors = {embedding->fd(), head->fd()};
  } else {
    CHECK(backend->AllocateExported(embedding->bytes(), &embedding_handle) != nullptr);
    CHECK(backend->AllocateExported(head->bytes(), &head_handle) != nullptr);
  }
  options.facts.sidecar = kSidecar;
  options.sidecar = "some sidecar";
  options.device_probe = probe.get();
  options.force_device = device;
  attachment =
      std::make_unique<DraftAttachment>(options, blocks.get(), descriptors.get(), metrics.get());
  IpcDraftPort::Options port_options;
  port_options.taps[0] = 1;
  port_options.taps[1] = 3;
  port_options.max_drafts = kMaxDrafts;
  port_options.vocab = kTestSizes.vocab;
  port_options.deadline = deadline;
  port_options.release_window_seconds = release_window_seconds;
  port_options.first_step = first_step;
  std::unique_ptr<DeviceRounds> rounds;
  if (device) rounds = *DeviceRounds::Create(backend.get(), kTestSizes.max_lanes, kTestSizes.vocab);
  port = std::make_unique<IpcDraftPort>(port_options, attachment.get(), metrics.get(),
                                        std::move(rounds));
}

HandoffHarness::~HandoffHarness() = default;

ipc::Identity HandoffHarness::Identity() const {
  const bool on_cpu = std::string(backend->name()) == "cpu";
  return *ipc::OwnIdentity(backend->name(), on_cpu ? "" : kHarnessUuid);
}

DrafterFacts HandoffHarness::Facts() const {
  DrafterFacts facts;
  facts.identity = Identity();
  facts.base_model = "some-model";
  facts.layers = 6;
  facts.width = kTestSizes.width;
  facts.taps[0] = 1;
  facts.taps[1] = 3;
  facts.sidecar = kSidecar;
  return facts;
}

Drafts HandoffHarness::Round(int slot, int64_t position, int count, int wanted) {
  constexpr int kFirstRow = 2;
  std::vector<int32_t> next_tokens;
  float* rows = port->FeatureRows();
  for (int i = 0; i < count; ++i) {
    next_tokens.push_back(Token(slot, position + i));
    if (rows == nullptr) continue;
    rows[static_cast<size_t>(kFirstRow + i) * 3 * kTestSizes.width] =
        FakeFeature(slot, position + i);
  }
  const PublishedLane lane = {.slot = slot,
                              .generation = 1,
                              .first_row = kFirstRow,
                              .count = count,
                              .wanted = wanted,
                              .position = position,
                              .next_tokens = next_tokens.data()};
  const bool on_device = port->device() != nullptr && port->live();
  if (on_device) {
    DeviceRound(lane);
  } else {
    static_cast<DraftPort&>(*port).Publish({&lane, 1});
  }
  Drafts drafts;
  outcome = port->Collect({&drafts, 1});
  return outcome == DraftOutcome::kOnDevice ? Take(slot, drafts.count) : drafts;
}

void HandoffHarness::DeviceRound(PublishedLane lane) {
  const int32_t* const tokens = lane.next_tokens;
  const int32_t emitted = lane.count;
  lane.count = 1;
  lane.drafts = std::min(emitted, kMaxDrafts);
  lane.chooses = true;
  DeviceHandoff& device = *port->device();
  device.Plan({&lane, 1});
  device.Take({}, {}, {});
  device.Publish({&emitted, 1}, {tokens, static_cast<size_t>(emitted)});
  device.Finish();
}

Drafts HandoffHarness::Take(int slot, int wanted) {
  int32_t tokens[kMaxDrafts], compared[kMaxDrafts];
  const WantedDrafts lane = {.slot = slot, .count = wanted};
  port->Take({&lane, 1}, {tokens, kMaxDrafts}, {compared, kMaxDrafts});
  Drafts drafts;
  drafts.count = port->Finish()[0];
  for (int k = 0; k < wanted; ++k) {
    EXPECT_EQ(tokens[k], std::max(compared[k], 0));
    EXPECT_EQ(compared[k] >= 0, k < drafts.count);
  }
  std::copy_n(tokens, drafts.count, drafts.tokens);
  return drafts;
}

Drafts HandoffHarness::Expected(int slot, int64_t position, int count, int wanted) {
  Drafts drafts;
  drafts.count = wanted;
  const int64_t last = position + count - 1;
  for (int k = 0; k < wanted; ++k) {
    drafts.tokens[k] = FakeDraft(Token(slot, last), last, k, kTestSizes.vocab);
  }
  return drafts;
}

double HandoffHarness::CounterValue(const std::string& line) const {
  for (absl::string_view text : absl::StrSplit(page->Text(), '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, ' ');
    double value = 0;
    if (parts.first == line && absl::SimpleAtod(parts.second, &value)) return value;
  }
  return -1;
}

MappedOffer MapOffer(const HandoffHarness& harness, const DraftOffer& offer) {
  const ipc::Layout& layout = harness.blocks->layout();
  auto fds = *ipc::TakeDescriptors(harness.descriptors->path(), offer.descriptor_token, 4,
                                   absl::Seconds(5));
  MappedOffer mapped;
  mapped.control = *ipc::Region::Map(std::move(fds[0]), layout.control_bytes);
  mapped.backend = MakeCpuBackend(1);
  mapped.features = mapped.backend->Import({.fd = fds[1].get(), .bytes = layout.feature_bytes},
                                           /*writable=*/offer.device);
  CHECK(mapped.features != nullptr);
  const auto* header = static_cast<const ipc::FeatureHeader*>(mapped.features);
  mapped.answer = ipc::KeyedAnswer(offer.epoch, offer.nonce, header->nonce);
  return mapped;
}

std::unique_ptr<ScriptedPeer> ScriptedPeer::Attach(HandoffHarness& harness, uint64_t closed_epoch) {
  DrafterFacts facts = harness.Facts();
  facts.closed_epoch = closed_epoch;
  const auto result = harness.attachment->Hello(facts);
  if (const auto* refusal = std::get_if<DraftRefusal>(&result)) {
    ADD_FAILURE() << refusal->reason << ": " << refusal->message;
    return nullptr;
  }
  const DraftOffer& offer = std::get<DraftOffer>(result);
  MappedOffer mapped = MapOffer(harness, offer);
  auto peer = std::make_unique<ScriptedPeer>();
  peer->epoch_ = offer.epoch;
  const ipc::BlockView view(harness.blocks->layout(), mapped.control->data(), mapped.features,
                            offer.epoch);
  view.header()->answer = mapped.answer;
  peer->control_ = std::move(mapped.control);
  peer->backend_ = std::move(mapped.backend);
  peer->channel_ = ipc::DrafterChannel(view);
  EXPECT_FALSE(harness.attachment->Prove(offer.epoch, mapped.answer).has_value());
  std::thread prober([&peer, device = offer.device] {
    for (uint64_t i = 1; i <= ipc::kProbeRounds; ++i) {
      peer->channel_.Pong(i, ipc::Clock::now() + std::chrono::seconds(2), [] { return false; });
    }
    for (uint32_t i = 1; i <= ipc::kProbeRounds && device; ++i) {
      const ipc::BlockView& block = peer->channel_.view();
      peer->backend_->WaitWord(block.device_word(ipc::kDevicePing), i);
      peer->backend_->WriteWord(block.device_word(ipc::kDevicePong), i);
    }
  });
  EXPECT_TRUE(harness.attachment->Probe(offer.epoch).ok());
  prober.join();
  harness.attachment->Activate(offer.epoch);
  return peer;
}

}  // namespace tandem
