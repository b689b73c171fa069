#include "common/rpc/unparsed_requests.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "common/metrics/metrics.h"
#include "common/rpc/client.h"
#include "common/rpc/metadata.h"
#include "common/rpc/outcome.h"
#include "common/rpc/server.h"
#include "common/rpc/status.h"
#include "grpcpp/generic/generic_stub.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem {
namespace {

// Tokenize is served, the other methods are not.
class Generation final : public v1::GenerationService::CallbackService {
 public:
  explicit Generation(MetricsPage* page) : page_(page) {}
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest*, v1::TokenizeResponse*) override {
    return FinishUnary(*context, *page_, "Tokenize", absl::OkStatus());
  }
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest*,
                                       v1::DetokenizeResponse*) override {
    return FinishUnary(*context, *page_, "Detokenize", absl::UnimplementedError("not here"));
  }

 private:
  MetricsPage* const page_;
};

class UnparsedRequestsTest : public testing::Test {
 protected:
  void SetUp() override {
    page_ = *MetricsPage::Create("");
    service_ = std::make_unique<Generation>(page_.get());
    auto server = ServerRunner::Start({.services = {service_.get()}, .page = page_.get()});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // The status of a call with these bytes as its request; `outcome` is the trailer.
  absl::Status Call(const std::string& method, const std::string& bytes) {
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    absl::Notification done;
    grpc::Status result;
    grpc::GenericStub(MakeChannel(server_->address()))
        .UnaryCall(&context, "/tandem.v1.GenerationService/" + method, {}, &request, &response,
                   [&](grpc::Status status) {
                     result = std::move(status);
                     done.Notify();
                   });
    done.WaitForNotification();
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto outcome = trailers.find(kOutcomeTrailer);
    outcome_ = outcome == trailers.end()
                   ? ""
                   : std::string(outcome->second.data(), outcome->second.size());
    return FromGrpc(result);
  }

  std::unique_ptr<MetricsPage> page_;
  std::unique_ptr<Generation> service_;
  std::unique_ptr<ServerRunner> server_;
  std::string outcome_;
};

TEST_F(UnparsedRequestsTest, DamagedBytesAndBadUtf8AreExplained) {
  for (const std::string& bytes : {std::string("\x0a\x02\xff\xfe"),  // text: not UTF-8
                                   std::string("\x0a\x7f"),          // text: cut off
                                   std::string("\xff\xff\xff")}) {
    const absl::Status status = Call("Tokenize", bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(ErrorReason(status), "REQUEST_UNPARSED");
    EXPECT_TRUE(absl::StrContains(status.message(), "GenerationService/Tokenize"));
    EXPECT_TRUE(absl::StrContains(status.message(), "UTF-8"));
    EXPECT_EQ(outcome_, "INVALID_ARGUMENT");
  }
  EXPECT_EQ(RequestsTotal(*page_, "Tokenize", "INVALID_ARGUMENT").Value(), 3);
  EXPECT_TRUE(Call("Tokenize", "").ok()) << "the server lives on";
}

TEST_F(UnparsedRequestsTest, UnimplementedStaysWhatItIs) {
  const absl::Status refused = Call("Detokenize", "");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(refused.message(), "not here");
  EXPECT_EQ(Call("NoSuchMethod", "").code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tandem
