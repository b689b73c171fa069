#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tandem/v1/session.grpc.pb.h"

namespace tandem::cli {

// Calls of the public API. Thread-safe. Errors carry the server's code and a message that names the
// address when nothing answers there.
class Client final {
 public:
  // `own_connection`: not shared with other clients of the same address.
  explicit Client(std::string address, bool own_connection = false);

  const std::string& address() const { return address_; }

  // Waits until something answers; UNAVAILABLE when nothing does in time.
  absl::Status WaitForConnection(absl::Duration timeout) const;

  absl::StatusOr<v1::GetModelResponse> GetModel() const;
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const std::string& text) const;
  // Exactly the bytes of the tokens.
  absl::StatusOr<std::string> Detokenize(const std::vector<uint32_t>& ids) const;
  absl::StatusOr<v1::Session> OpenSession() const;
  absl::Status CloseSession(const std::string& id) const;

  // Runs one request and hands over every event as it arrives. `context` is new; another thread may
  // cancel it meanwhile. OK once the terminal event `finished` was handed over; the error of
  // `failed` or of the call otherwise.
  absl::Status Generate(const v1::GenerateRequest& request, grpc::ClientContext& context,
                        const std::function<void(const v1::GenerateResponse&)>& on_event) const;

 private:
  absl::Status Convert(const grpc::Status& status) const;

  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
};

// The bytes of single tokens, asked for once each.
class Pieces final {
 public:
  explicit Pieces(const Client* client) : client_(client) {}
  absl::StatusOr<absl::string_view> Get(uint32_t id);

 private:
  const Client* client_;
  std::map<uint32_t, std::string> pieces_;
};

}  // namespace tandem::cli
