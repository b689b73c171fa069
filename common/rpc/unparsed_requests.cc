#include "common/rpc/unparsed_requests.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/rpc/metadata.h"
#include "common/rpc/outcome.h"
#include "common/rpc/status.h"

namespace tandem {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

class Explainer final : public grpc::experimental::Interceptor {
 public:
  // `method` is "/package.Service/Method".
  Explainer(const char* method, MetricsPage* page) : method_(method), page_(page) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      Explain(*methods);
    }
    methods->Proceed();
  }

 private:
  void Explain(InterceptorBatchMethods& methods) const {
    const grpc::Status status = methods.GetSendStatus();
    // No handler of this project says UNIMPLEMENTED without a message.
    if (status.error_code() != grpc::StatusCode::UNIMPLEMENTED || !status.error_message().empty()) {
      return;
    }
    const absl::Status explained = ReasonError(
        absl::StatusCode::kInvalidArgument, "REQUEST_UNPARSED",
        absl::StrCat("the request of ", method_.substr(1),
                     " does not parse: its bytes are damaged or a string field is not UTF-8"));
    methods.ModifySendStatus(ToGrpc(explained));
    const std::string outcome = CodeName(explained.code());
    methods.GetSendTrailingMetadata()->emplace(kOutcomeTrailer, outcome);
    if (page_ == nullptr) return;
    CountOutcome(*page_, std::string(method_.substr(method_.rfind('/') + 1)), explained.code());
  }

  const absl::string_view method_;
  MetricsPage* const page_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(MetricsPage* page) : page_(page) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    // Streams of requests parse inside their handlers; an unknown method counts as such a stream.
    const bool one_request = info->type() == ServerRpcInfo::Type::UNARY ||
                             info->type() == ServerRpcInfo::Type::SERVER_STREAMING;
    return one_request ? new Explainer(info->method(), page_) : nullptr;
  }

 private:
  MetricsPage* const page_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> ExplainUnparsedRequests(
    MetricsPage* page) {
  return std::make_unique<Factory>(page);
}

}  // namespace tandem
