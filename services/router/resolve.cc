#include "services/router/resolve.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

struct AddressListDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveTarget(absl::string_view target) {
  if (absl::StartsWith(target, "unix:")) return std::vector<std::string>{std::string(target)};
  const size_t colon = target.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(target.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("verifier '", target, "' must be host:port, [ipv6]:port or unix:path"));
  }
  absl::string_view host = target.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(std::string(host).c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("verifier '", target, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, AddressListDeleter> owner(list);
  std::set<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char name[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, name, sizeof(name), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    addresses.insert(entry->ai_family == AF_INET6 ? absl::StrCat("[", name, "]:", port)
                                                  : absl::StrCat(name, ":", port));
  }
  return std::vector<std::string>(addresses.begin(), addresses.end());
}

}  // namespace tandem
