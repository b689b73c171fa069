#include "tests/unit/drafter/service_harness.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/ipc/handle.h"
#include "kernels/linear/linear.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

DrafterProcess::DrafterProcess(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ), 0) << argv[0];
}

DrafterProcess::~DrafterProcess() {
  if (pid_ <= 0) return;
  Signal(SIGKILL);
  Join();
}

int DrafterProcess::Join() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string NewSocketPath() {
  static std::atomic<int> count{0};
  return absl::StrCat(::testing::TempDir(), "/draft-", getpid(), "-", ++count, ".sock");
}

std::vector<std::string> ScriptedCommand(const std::string& socket, int delay_ms) {
  return {SCRIPTED_DRAFTER, socket, absl::StrCat(delay_ms)};
}

ServiceHarness::ServiceHarness(const std::string& path, DraftDeadline::Options deadline,
                               double lease_seconds, std::unique_ptr<Backend> backend, bool device)
    : handoff(deadline, 10, std::move(backend), device), socket(path) {
  DraftService::Options options;
  options.socket = path;
  options.descriptor_socket = handoff.descriptors->path();
  options.model = "some-model";
  options.model_hash = "0123456789abcdef";
  options.layers = 6;
  options.max_drafts = kMaxDrafts;
  options.layout = handoff.blocks->layout();
  options.embedding_bytes = handoff.embedding->bytes();
  options.head_bytes = handoff.head->bytes();
  options.head_format = static_cast<uint32_t>(WeightFormat::kBf16);
  if (handoff.embedding_handle.bytes > 0) {
    options.embedding_handle = ipc::HandleBytes(handoff.embedding_handle);
    options.head_handle = ipc::HandleBytes(handoff.head_handle);
  }
  options.lease_seconds = lease_seconds;
  auto started = DraftService::Start(options, handoff.attachment.get());
  EXPECT_TRUE(started.ok()) << started.status();
  service = *std::move(started);
}

ServiceHarness::~ServiceHarness() = default;

bool ServiceHarness::AwaitAttached(bool attached, double seconds) const {
  const Clock::time_point start = Clock::now();
  while (handoff.port->Attached() != attached) {
    if (Since(start) > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool ServiceHarness::Step() {
  constexpr int kWanted = 3;
  const Clock::time_point start = Clock::now();
  const int slot = static_cast<int>(position_ % kTestSizes.slots);
  const Drafts drafts = handoff.Round(slot, position_, 2, kWanted);
  longest_step = std::max(longest_step, Since(start));
  if (drafts.count > 0) {
    const Drafts expected = HandoffHarness::Expected(slot, position_, 2, kWanted);
    EXPECT_EQ(drafts.count, expected.count);
    for (int k = 0; k < drafts.count; ++k) EXPECT_EQ(drafts.tokens[k], expected.tokens[k]);
    ++drafted_steps;
  }
  position_ += 2;
  return drafts.count > 0;
}

SidecarFacts ServiceHarness::Sidecar(const std::string& base_model) {
  return {.base_model = base_model,
          .layers = 6,
          .width = kTestSizes.width,
          .taps = {1, 3},
          .depth = 3,
          .window = 512,
          .max_drafts = kMaxDrafts,
          .hash = "1234"};
}

std::unique_ptr<AttachClient> ServiceHarness::Dial(uint64_t closed_epoch,
                                                   const std::string& base_model) const {
  AttachClient::Hello hello;
  hello.identity = handoff.Identity();
  hello.sidecar = Sidecar(base_model);
  hello.closed_epoch = closed_epoch;
  return std::make_unique<AttachClient>(socket, hello);
}

}  // namespace tandem
