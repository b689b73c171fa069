#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "common/base/file.h"
#include "common/base/flags.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/stop_signals.h"
#include "common/rpc/validate.h"
#include "services/router/router.h"

ABSL_FLAG(std::string, address, "127.0.0.1:50051",
          "Where clients connect: host:port or unix:path; port 0 takes a free one");
ABSL_FLAG(std::vector<std::string>, verifiers, {},
          "Verifiers, comma-separated host:port or unix:path; names are resolved again and again, "
          "and each address of a name is a verifier");
ABSL_FLAG(std::string, metrics_address, "", "host:port of /metrics; empty: none");
ABSL_FLAG(std::string, vocab, "",
          "Vocabulary file to use instead of the one that the verifiers serve");
ABSL_FLAG(absl::Duration, resume_timeout, absl::Seconds(60),
          "How long a stream that lost its verifier may pause before it fails");
ABSL_FLAG(absl::Duration, default_timeout, absl::Minutes(10),
          "Deadline of requests that bring none");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "How long running requests get to finish after SIGTERM");
ABSL_FLAG(int, max_message_bytes, 4 << 20, "Largest message taken, 65536 to 1073741824");
ABSL_FLAG(int, max_sessions, 10'000, "Most sessions open at once, 1 to 1000000");
ABSL_FLAG(std::string, ready_file, "",
          "File that gets a JSON object with pid and addresses once the router listens");

namespace tandem {
namespace {

absl::StatusOr<Router::Options> OptionsFromFlags() {
  const int max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  const int max_sessions = absl::GetFlag(FLAGS_max_sessions);
  RETURN_IF_ERROR(CheckFlag("max_message_bytes", max_message_bytes, 1 << 16, 1 << 30));
  RETURN_IF_ERROR(CheckFlag("max_sessions", max_sessions, 1, 1'000'000));
  RETURN_IF_ERROR(CheckPositive("resume_timeout", absl::GetFlag(FLAGS_resume_timeout)));
  RETURN_IF_ERROR(CheckPositive("default_timeout", absl::GetFlag(FLAGS_default_timeout)));
  Router::Options options = {
      .address = absl::GetFlag(FLAGS_address),
      .metrics_address = absl::GetFlag(FLAGS_metrics_address),
      .pool = {.targets = absl::GetFlag(FLAGS_verifiers), .max_message_bytes = max_message_bytes},
      .relay = {.resume_timeout = absl::GetFlag(FLAGS_resume_timeout)},
      .default_timeout = absl::GetFlag(FLAGS_default_timeout),
      .max_message_bytes = max_message_bytes,
      .max_sessions = static_cast<size_t>(max_sessions),
      .ready_file = absl::GetFlag(FLAGS_ready_file)};
  if (const std::string path = absl::GetFlag(FLAGS_vocab); !path.empty()) {
    ASSIGN_OR_RETURN(options.pool.vocabulary_text, ReadFile(path, kMaxVocabularyBytes));
  }
  return options;
}

absl::Status Serve() {
  StopSignals signals;
  ASSIGN_OR_RETURN(const Router::Options options, OptionsFromFlags());
  ASSIGN_OR_RETURN(const auto router, Router::Start(options));
  LOG(INFO) << "listening on " << router->server().address();
  router->server().Run(signals, absl::GetFlag(FLAGS_drain_timeout),
                       [&router] { router->BeginDrain(); });
  return absl::OkStatus();
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::ParseServiceFlags(argc, argv, "router",
                            "Serves the public API of tandem in front of one or more verifiers.\n"
                            "tandem-router --verifiers=host:port[,host:port...]");
  const absl::Status status = tandem::Serve();
  if (status.ok()) return 0;
  std::fprintf(stderr, "tandem-router: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
