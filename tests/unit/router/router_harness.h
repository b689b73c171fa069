#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "services/router/router.h"
#include "tests/unit/router/demo_vocabulary.h"
#include "tests/unit/router/fake_verifier.h"

namespace tandem {

// Everything that one Generate call brought.
struct Collected {
  std::optional<v1::Started> started = {};
  v1::Delta output = {};  // all deltas
  std::optional<v1::Finished> finished = {};
  std::optional<v1::Failed> failed = {};
  absl::Status status = {};
  std::string outcome = {};  // the trailer
  int deltas = 0;
  int after_terminal = 0;  // messages behind the terminal event

  std::vector<uint32_t> ids() const {
    return {output.token_ids().begin(), output.token_ids().end()};
  }
};

// True once `condition` holds, which is asked again and again for at most `timeout`.
bool Eventually(const std::function<bool()>& condition, absl::Duration timeout = absl::Seconds(5));

// A router in front of fake verifiers, and a client of it.
class RouterHarness : public testing::Test {
 protected:
  // Starts a verifier; the router knows it if it starts later.
  FakeVerifier& AddVerifier(FakeBehaviour behaviour);
  // Waits until `usable` verifiers are; all that were added by default.
  void StartRouter(const std::function<void(Router::Options&)>& edit = {}, int usable = -1);
  void TearDown() override;

  // Uses the context only to add metadata and deadlines before the call.
  Collected Generate(const v1::GenerateRequest& request,
                     const std::function<void(grpc::ClientContext&)>& edit = {});
  static Collected Collect(grpc::ClientContext& context,
                           grpc::ClientReader<v1::GenerateResponse>& reader);
  v1::Session OpenSession(const std::string& id = "");
  double Metric(const std::string& line_start) const;

  std::vector<std::unique_ptr<FakeVerifier>> verifiers_;
  std::unique_ptr<Router> router_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
};

// A request for text.
v1::GenerateRequest TextRequest(const std::string& prompt, uint32_t max_tokens = 1000);

}  // namespace tandem
