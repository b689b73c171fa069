#include "tests/unit/router/router_harness.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/rpc/client.h"
#include "common/rpc/generate_merge.h"
#include "common/rpc/metadata.h"
#include "common/rpc/status.h"

namespace tandem {

bool Eventually(const std::function<bool()>& condition, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (absl::Now() < deadline) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return condition();
}

FakeVerifier& RouterHarness::AddVerifier(FakeBehaviour behaviour) {
  verifiers_.push_back(std::make_unique<FakeVerifier>(std::move(behaviour)));
  return *verifiers_.back();
}

void RouterHarness::StartRouter(const std::function<void(Router::Options&)>& edit, int usable) {
  Router::Options options = {.address = "127.0.0.1:0"};
  for (const auto& verifier : verifiers_) options.pool.targets.push_back(verifier->address());
  if (edit) edit(options);
  auto router = Router::Start(options);
  ASSERT_TRUE(router.ok()) << router.status();
  router_ = *std::move(router);
  channel_ = MakeChannel(router_->server().address(), {.retries = false});
  stub_ = v1::GenerationService::NewStub(channel_);
  sessions_ = v1::SessionService::NewStub(channel_);
  const auto wanted = static_cast<double>(usable < 0 ? verifiers_.size() : usable);
  ASSERT_TRUE(Eventually([&] { return Metric("tandem_verifiers_up{") >= wanted || wanted == 0; }));
}

void RouterHarness::TearDown() {
  router_.reset();
  verifiers_.clear();
}

Collected RouterHarness::Collect(grpc::ClientContext& context,
                                 grpc::ClientReader<v1::GenerateResponse>& reader) {
  Collected all;
  v1::GenerateResponse response;
  while (reader.Read(&response)) {
    if (all.finished.has_value() || all.failed.has_value()) ++all.after_terminal;
    if (response.has_started()) all.started = response.started();
    if (response.has_delta()) {
      ++all.deltas;
      AppendDelta(all.output, *response.mutable_delta());
    }
    if (response.has_finished()) all.finished = response.finished();
    if (response.has_failed()) all.failed = response.failed();
  }
  all.status = FromGrpc(reader.Finish());
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto outcome = trailers.find(kOutcomeTrailer);
  if (outcome != trailers.end()) {
    all.outcome = std::string(outcome->second.data(), outcome->second.size());
  }
  return all;
}

Collected RouterHarness::Generate(const v1::GenerateRequest& request,
                                  const std::function<void(grpc::ClientContext&)>& edit) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  if (edit) edit(context);
  const auto reader = stub_->Generate(&context, request);
  return Collect(context, *reader);
}

v1::Session RouterHarness::OpenSession(const std::string& id) {
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  if (!id.empty()) request.set_session_id(id);
  v1::Session session;
  const grpc::Status status = sessions_->OpenSession(&context, request, &session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return session;
}

double RouterHarness::Metric(const std::string& line_start) const {
  for (const absl::string_view line : absl::StrSplit(router_->metrics_page().Text(), '\n')) {
    double value = 0;
    if (absl::StartsWith(line, line_start) &&
        absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
      return value;
    }
  }
  return 0;
}

v1::GenerateRequest TextRequest(const std::string& prompt, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_prompt(prompt);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

}  // namespace tandem
