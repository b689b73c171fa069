#include "common/rpc/server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "common/metrics/metrics_page.h"
#include "common/rpc/client.h"
#include "common/rpc/metadata.h"
#include "common/rpc/outcome.h"
#include "common/rpc/status.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/generic/generic_stub.h"
#include "tandem/v1/session.grpc.pb.h"

namespace tandem {
namespace {

// Close fails with details.
class Sessions final : public v1::SessionService::CallbackService {
 public:
  explicit Sessions(MetricsPage* page) : page_(page) {}
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const v1::CloseSessionRequest*,
                                         v1::CloseSessionResponse*) override {
    return FinishUnary(*context, *page_, "CloseSession", FieldError("session_id", "is bad"));
  }

 private:
  MetricsPage* const page_;
};

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    page_ = *MetricsPage::Create("");
    service_ = std::make_unique<Sessions>(page_.get());
    auto server = ServerRunner::Start(
        {.services = {service_.get()}, .health_names = {v1::SessionService::service_full_name()}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = MakeChannel(server_->address());
  }

  // The health service's status of `name`: 1 SERVING, 2 NOT_SERVING; minus the code of an error.
  int Health(const std::string& name) {
    std::string request(1, '\x0a');  // field 1, a string
    request.push_back(static_cast<char>(name.size()));
    request += name;
    const grpc::Slice slice(request);
    const grpc::ByteBuffer message(&slice, 1);
    grpc::ByteBuffer answer;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<grpc::Status> result;
    grpc::GenericStub(channel_).UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &message,
                                          &answer, [&](grpc::Status status) {
                                            const std::lock_guard lock(mutex);
                                            result = std::move(status);
                                            changed.notify_all();
                                          });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return result.has_value(); });
    if (!result->ok()) return -static_cast<int>(result->error_code());
    grpc::Slice bytes;
    EXPECT_TRUE(answer.TrySingleSlice(&bytes).ok());
    return bytes.size() == 2 ? bytes.begin()[1] : 0;
  }

  std::unique_ptr<MetricsPage> page_;
  std::unique_ptr<Sessions> service_;
  std::unique_ptr<ServerRunner> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ServerTest, HealthFollowsServingAndLive) {
  const std::vector<std::string> names = {"", "readiness", "tandem.v1.SessionService"};
  for (const std::string& name : names) EXPECT_EQ(Health(name), 2) << name;
  EXPECT_EQ(Health("liveness"), 1);
  server_->SetServing(true);
  for (const std::string& name : names) EXPECT_EQ(Health(name), 1) << name;
  server_->SetLive(false);
  EXPECT_EQ(Health("liveness"), 2);
  EXPECT_EQ(Health("nobody"), -static_cast<int>(grpc::StatusCode::NOT_FOUND));
}

TEST_F(ServerTest, ReflectionListsTheServices) {
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  const auto call = grpc::GenericStub(channel_).PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    ASSERT_TRUE(ok);
  };
  call->StartCall(nullptr);
  await();
  const grpc::Slice slice(std::string("\x3a\x00", 2));  // list_services = ""
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  await();
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  await();
  grpc::Slice bytes;
  ASSERT_TRUE(answer.DumpToSingleSlice(&bytes).ok());
  const std::string text(bytes.begin(), bytes.end());
  EXPECT_NE(text.find("tandem.v1.SessionService"), std::string::npos);
  EXPECT_NE(text.find("grpc.health.v1.Health"), std::string::npos);
  context.TryCancel();
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) continue;
}

TEST_F(ServerTest, AnErrorCarriesDetailsTrailerAndMetric) {
  grpc::ClientContext context;
  v1::CloseSessionResponse response;
  const absl::Status status =
      FromGrpc(v1::SessionService::NewStub(channel_)->CloseSession(&context, {}, &response));
  ASSERT_EQ(FieldViolations(status).size(), 1U) << status;
  EXPECT_EQ(FieldViolations(status)[0].field, "session_id");
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto outcome = trailers.find(kOutcomeTrailer);
  ASSERT_NE(outcome, trailers.end());
  EXPECT_EQ(std::string(outcome->second.data(), outcome->second.size()), "INVALID_ARGUMENT");
  EXPECT_TRUE(absl::StrContains(page_->Text(), "outcome=\"INVALID_ARGUMENT\""));
  EXPECT_TRUE(absl::StrContains(page_->Text(), "method=\"CloseSession\""));
}

TEST_F(ServerTest, ATakenPortIsRefused) {
  const auto second = ServerRunner::Start({.address = server_->address()});
  ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(second.status().message(), server_->address()));
}

TEST_F(ServerTest, ReadyFileTellsTheAddress) {
  const std::string path = testing::TempDir() + "/ready.json";
  ASSERT_TRUE(server_->WriteReadyFile({.path = path, .process = "router"}).ok());
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  google::protobuf::Struct facts;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(text, &facts).ok()) << text;
  EXPECT_EQ(facts.fields().at("process").string_value(), "router");
  EXPECT_EQ(facts.fields().at("pid").number_value(), getpid());
  EXPECT_EQ(facts.fields().at("port").number_value(), server_->port());
  EXPECT_EQ(facts.fields().at("address").string_value(), server_->address());
  server_.reset();
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "left behind";
}

TEST_F(ServerTest, AnUnwritableReadyFileIsAnError) {
  EXPECT_FALSE(server_->WriteReadyFile({.path = "/no/such/folder/ready.json"}).ok());
}

TEST_F(ServerTest, RunDrainsOnASignal) {
  StopSignals signals;
  server_->SetServing(true);
  int health_while_draining = 0;
  std::thread drainer;
  std::thread run([&] {
    server_->Run(signals, absl::Seconds(20), [&] {
      drainer = std::thread([&] {
        health_while_draining = Health("readiness");
        server_->Drained();
      });
    });
  });
  const absl::Time start = absl::Now();
  signals.Raise();
  run.join();
  drainer.join();
  EXPECT_EQ(health_while_draining, 2);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(StopSignals, ASignalRaiseAndWakeAreToldApart) {
  using Event = StopSignals::Event;
  StopSignals signals;
  EXPECT_EQ(signals.Wait(absl::Milliseconds(1)), Event::kTimeout);
  for (const int signal : {SIGTERM, SIGINT}) {
    ASSERT_EQ(pthread_kill(pthread_self(), signal), 0);
    EXPECT_EQ(signals.Wait(absl::Seconds(5)), Event::kSignal);
  }
  signals.Wake();
  signals.Wake();
  EXPECT_EQ(signals.Wait(absl::Seconds(5)), Event::kWake);
  signals.Raise();
  signals.Raise();
  EXPECT_EQ(signals.Wait(absl::Seconds(5)), Event::kSignal);
  EXPECT_EQ(signals.Wait(absl::Seconds(5)), Event::kSignal);
  EXPECT_EQ(signals.Wait(absl::Milliseconds(1)), Event::kTimeout);
}

TEST_F(ServerTest, ASecondSignalForces) {
  StopSignals signals;
  signals.Raise();
  signals.Raise();
  const absl::Time start = absl::Now();
  server_->Run(signals, absl::Seconds(60), [] {});
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST_F(ServerTest, TheDrainTimeoutEndsIt) {
  StopSignals signals;
  signals.Raise();
  const absl::Time start = absl::Now();
  server_->Run(signals, absl::Milliseconds(200), [] {});
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(200));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

}  // namespace
}  // namespace tandem
