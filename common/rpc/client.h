#pragma once

#include <memory>
#include <string>

#include "grpcpp/channel.h"

namespace tandem {

struct ChannelOptions {
  // Largest message received; -1 has no limit.
  int max_receive_bytes = 4 << 20;
  // Retries UNAVAILABLE by itself, only before the first message of the answer, with throttling.
  // Off where the caller has another server to turn to.
  bool retries = true;
  // A connection of its own instead of one that is shared by all channels to the same address.
  bool own_connection = false;
};

// An insecure channel to "host:port", "unix:path" or another gRPC target, with the keepalive that
// servers of this project allow and a reconnect back-off of 50 to 500 ms. Connects lazily.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target,
                                           const ChannelOptions& options = {});

}  // namespace tandem
