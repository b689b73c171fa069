#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp_path.h"
#include "common/model/model_path.h"
#include "common/model/synthetic.h"
#include "common/model/weight_format.h"
#include "services/cli/command.h"
#include "services/cli/group.h"
#include "services/cli/mps_daemon.h"
#include "services/cli/option_values.h"
#include "services/cli/ready_file.h"
#include "services/cli/resolve_backend.h"
#include "services/cli/runtime_directory.h"
#include "services/cli/supervisor.h"
#include "services/cli/terminal.h"

namespace tandem::cli {
namespace {

// For a process that does not keep its own limit.
constexpr absl::Duration kStopMargin = absl::Seconds(15);

struct UpOptions {
  GroupOptions group = {.address = "127.0.0.1:50051",
                        .verifier_address = "127.0.0.1:0",
                        .router_metrics = "127.0.0.1:0",
                        .verifier_metrics = "127.0.0.1:0",
                        .drafter_metrics = "127.0.0.1:0"};
  // Handed to the processes where given; see their --help.
  std::string weights, activations, head_weights, draft_weights, batch_invariant;
  std::string threads, max_sequences, max_sessions, queue_limit, draft_schedule;
  std::string mps = "auto";
  std::string ready_file;
  std::string colour = "auto";
  absl::Duration start_timeout = absl::Minutes(5);
};

Colour ColourOf(absl::string_view name) {
  if (name == "router") return Colour::kCyan;
  return name == "verifier" ? Colour::kYellow : Colour::kMagenta;
}

void PrintLine(absl::string_view name, absl::string_view line, bool colour) {
  const std::string prefix = absl::StrFormat("%-8s | ", name);
  WriteAll(STDERR_FILENO, absl::StrCat(Paint(ColourOf(name), prefix, colour), line, "\n"));
}

// The signals are blocked before any child starts, so that none of them is lost.
absl::StatusOr<int> StopFd() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int fd = signalfd(-1, &signals, SFD_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "cannot make a signalfd");
  return fd;
}

absl::StatusOr<bool> HasSidecar(const GroupOptions& group) {
  if (const auto size = SyntheticSize(group.model)) {
    RETURN_IF_ERROR(SyntheticOfSize(*size).status());
    return group.mtp_path != "off";
  }
  ASSIGN_OR_RETURN(const ModelPath path, ResolveModelPath(group.model));
  ASSIGN_OR_RETURN(const auto sidecar, ResolveMtpPath(group.mtp_path, path.folder));
  if (!sidecar.has_value() && group.mtp_path != "off") {
    std::fprintf(stderr, "tandem: no sidecar in %s/mtp, so replies are decoded without drafts\n",
                 path.folder.c_str());
  }
  return sidecar.has_value();
}

// Decides whether a drafter is started, and checks what can be checked before anything runs.
absl::Status PrepareGroup(const UpOptions& options, GroupOptions& group) {
  const auto sidecar = HasSidecar(group);
  if (!sidecar.ok()) return AsUsageError(sidecar.status());
  // In process, the verifier itself drafts.
  group.drafter = *sidecar && group.handoff != "inprocess";
  ASSIGN_OR_RETURN(group.binaries, OwnFolder());
  // A verifier that died has as long to load as at the start.
  group.resume_timeout = std::max(group.resume_timeout, options.start_timeout);
  const auto add = [&group](absl::string_view flag, const std::string& value, bool drafter) {
    if (value.empty()) return;
    group.verifier_flags.push_back(absl::StrCat(flag, "=", value));
    if (drafter) group.drafter_flags.push_back(absl::StrCat(flag, "=", value));
  };
  add("--weights", options.weights, false);
  add("--activations", options.activations, false);
  add("--head-weights", options.head_weights, false);
  add("--draft-weights", options.draft_weights, true);
  add("--batch-invariant", options.batch_invariant, false);
  add("--threads", options.threads, true);
  add("--max-sequences", options.max_sequences, false);
  add("--max-sessions", options.max_sessions, false);
  add("--queue-limit", options.queue_limit, false);
  add("--draft-schedule", options.draft_schedule, false);
  return absl::OkStatus();
}

// A daemon whose clients can compute.
absl::StatusOr<std::unique_ptr<MpsDaemon>> StartMps(const GroupOptions& group,
                                                    const std::string& folder) {
  ASSIGN_OR_RETURN(std::unique_ptr<MpsDaemon> daemon, MpsDaemon::Start(folder));
  if (group.backend == "cuda") RETURN_IF_ERROR(ResolveBackend("cuda").status());
  return daemon;
}

// Decides between a daemon of the group's own, one that the environment names, and none; null
// unless it is the group's own.
absl::StatusOr<std::unique_ptr<MpsDaemon>> PrepareMps(const std::string& mode,
                                                      const std::string& folder,
                                                      GroupOptions& group) {
  if (mode == "off") MpsDaemon::UseNone(folder);
  if (mode == "off") return nullptr;
  if (mode == "auto") {
    if (group.backend != "cuda" || !group.drafter) return nullptr;
    group.mps = MpsDaemon::Named();
    if (group.mps || !MpsDaemon::Installed()) return nullptr;
  }
  auto daemon = StartMps(group, folder);
  group.mps = daemon.ok();
  if (daemon.ok()) return daemon;
  if (mode == "on") {
    return absl::Status(daemon.status().code(),
                        absl::StrCat("--mps=on: ", daemon.status().message()));
  }
  std::fprintf(stderr, "tandem: without MPS, so every hand-off to the drafter takes longer: %s\n",
               std::string(daemon.status().message()).c_str());
  MpsDaemon::UseNone(folder);
  return nullptr;
}

// What the supervisor has to know where the group has a daemon of its own.
void Watch(std::unique_ptr<MpsDaemon>& daemon, const std::string& folder, Group& group,
           Supervisor::Options& supervisor) {
  if (daemon == nullptr) return;
  group.SetMpsDaemon(daemon->pid());
  supervisor.ground_fd = [&daemon] { return daemon == nullptr ? -1 : daemon->exit_fd(); };
  supervisor.renew_ground = [&daemon, &folder, &group,
                             say = supervisor.on_event]() -> absl::Status {
    daemon = nullptr;
    ASSIGN_OR_RETURN(daemon, MpsDaemon::Start(folder));
    group.SetMpsDaemon(daemon->pid());
    say("mps", absl::StrCat("had ended, started again, pid ", daemon->pid()));
    return absl::OkStatus();
  };
  supervisor.before_kill = [&daemon](absl::string_view name, pid_t pid) {
    if (name == "drafter" && daemon != nullptr) daemon->TerminateClient(pid);
  };
}

absl::Status RunUp(const UpOptions& options) {
  GroupOptions group_options = options.group;
  RETURN_IF_ERROR(PrepareGroup(options, group_options));
  ASSIGN_OR_RETURN(const int stop_fd, StopFd());
  ASSIGN_OR_RETURN(ReadyFile ready_file, ReadyFile::Claim(options.ready_file));
  ASSIGN_OR_RETURN(const RuntimeDirectory runtime, RuntimeDirectory::Create());
  if (group_options.backend == "auto") {
    ASSIGN_OR_RETURN(group_options.backend, ResolveBackend("auto"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<MpsDaemon> mps,
                   PrepareMps(options.mps, runtime.path(), group_options));
  Group group(group_options, runtime.path());
  const bool colour = UseColour(options.colour, STDERR_FILENO);
  bool all_ready = false;
  const auto write_ready_file = [&]() -> absl::Status {
    return all_ready ? ready_file.Write(group.ReadyJson()) : absl::OkStatus();
  };
  Supervisor::Options supervised = {
      .children = group.Children(),
      .stop_order = group.StopOrder(),
      .start_timeout = options.start_timeout,
      .stop_timeout = group_options.drain_timeout + kStopMargin,
      .stop_fd = stop_fd,
      .tied = group.Tied(),
      .on_line = [&](absl::string_view name,
                     absl::string_view line) { PrintLine(name, line, colour); },
      .on_event = [&](absl::string_view name,
                      absl::string_view message) { PrintLine(name, message, colour); },
      .on_ready = [&](absl::string_view name, pid_t pid, absl::string_view ready) -> absl::Status {
        RETURN_IF_ERROR(group.SetReady(name, pid, ready));
        if (mps != nullptr) mps->NoteServers();
        return write_ready_file();
      },
      .on_all_ready = [&]() -> absl::Status {
        all_ready = true;
        WriteAll(STDOUT_FILENO,
                 absl::StrCat("tandem is ready\n", group.Describe(), "Ctrl-C ends it\n"));
        return write_ready_file();
      },
  };
  Watch(mps, runtime.path(), group, supervised);
  const absl::Status status = Supervisor(std::move(supervised)).Run();
  close(stop_fd);
  return status;
}

void AddAddressOptions(CLI::App& app, GroupOptions& group) {
  app.add_option("--address", group.address, "Where the router serves; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--verifier-address", group.verifier_address, "Where the verifier serves")
      ->capture_default_str();
  app.add_option("--router-metrics", group.router_metrics, "Address of the router's /metrics")
      ->capture_default_str();
  app.add_option("--verifier-metrics", group.verifier_metrics, "Address of the verifier's /metrics")
      ->capture_default_str();
  app.add_option("--drafter-metrics", group.drafter_metrics, "Address of the drafter's /metrics")
      ->capture_default_str();
}

void AddPassThroughOptions(CLI::App& app, UpOptions& options) {
  // The ranges of the services.
  const auto count = [&app](const char* name, std::string& value, int low, int high,
                            const char* help) {
    app.add_option(name, value, help)->transform(WholeNumber(low, high))->type_name("INT");
  };
  const auto format = [&app](const char* name, std::string& value,
                             std::vector<std::string> accepted, const char* help) {
    app.add_option(name, value, help)->check(CLI::IsMember(std::move(accepted)));
  };
  std::vector<std::string> matrices = WeightFormatNames(AllWeightFormats());
  std::vector<std::string> head = WeightFormatNames(HeadWeightFormats());
  format("--draft-weights", options.draft_weights, matrices, "Format of the sidecar's matrices");
  for (std::vector<std::string>* names : {&matrices, &head}) names->push_back(kAsTheFileIs);
  format("--weights", options.weights, std::move(matrices), "Format of the model's large matrices");
  format("--head-weights", options.head_weights, std::move(head), "Format of its head");
  format("--activations", options.activations, {"exact", "fp8"},
         "Inputs of the large matrices: fp8 rounds them as well, where these are in fp8");
  format("--batch-invariant", options.batch_invariant, {"true", "false"},
         "false: on a GPU, large passes go through cuBLASLt, faster, but not bit for bit the same");
  count("--threads", options.threads, 0, 1024,
        "Compute threads of verifier and drafter; 0: one per core");
  count("--max-sequences", options.max_sequences, 1, 1 << 14, "Replies generated at the same time");
  count("--max-sessions", options.max_sessions, 0, 1'000'000, "Sessions held");
  count("--queue-limit", options.queue_limit, 0, 1'000'000, "Requests that may wait for a place");
  app.add_option("--draft-schedule", options.draft_schedule,
                 "Drafts per step by active replies, as 4:3,16:2,0:0")
      ->envname("RWKV_MTP_K");
  const auto add = [&app](const char* name, std::vector<std::string>& flags, const char* help) {
    app.add_option(name, flags, help)->allow_extra_args(false)->take_all();
  };
  add("--router-flag", options.group.router_flags, "One more flag for the router; may be repeated");
  add("--verifier-flag", options.group.verifier_flags, "One more flag for the verifier");
  add("--drafter-flag", options.group.drafter_flags, "One more flag for the drafter");
}

}  // namespace

Command MakeUpCommand(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "up", "Start verifier, drafter and router as one group, and keep them running");
  auto options = std::make_shared<UpOptions>();
  GroupOptions& group = options->group;
  app->add_option("--model", group.model,
                  "Model folder or checkpoint file; or synthetic:SIZE, see tandem-verifier")
      ->required();
  AddAddressOptions(*app, group);
  app->add_option("--backend", group.backend,
                  "Where verifier and drafter compute: cpu, cuda, or auto, which takes a GPU if "
                  "there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app->add_option("--mtp-path", group.mtp_path, "Sidecar: auto, off, or a folder")
      ->envname("RWKV_MTP_PATH")
      ->capture_default_str();
  app->add_flag("--mtp-force", group.mtp_force, "Use a sidecar that was made for another model")
      ->envname("RWKV_MTP_FORCE");
  app->add_option("--handoff", group.handoff,
                  "Between verifier and drafter: auto, host, device, or inprocess, which needs no "
                  "drafter process")
      ->check(CLI::IsMember({"auto", "host", "device", "inprocess"}));
  app->add_option(
         "--mps", options->mps,
         "Multi-Process Service of the GPU: on starts a private daemon, auto does where a "
         "drafter process shares a GPU and CUDA_MPS_PIPE_DIRECTORY names none, off uses none")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  AddPassThroughOptions(*app, *options);
  AddDurationOption(*app, "--drain-timeout", group.drain_timeout, absl::ZeroDuration(),
                    absl::Hours(1), "Time for running replies to end after Ctrl-C");
  AddDurationOption(*app, "--start-timeout", options->start_timeout, absl::Seconds(1),
                    absl::Hours(24), "Time for a process to start");
  app->add_option("--ready-file", options->ready_file,
                  "Write addresses and process ids there, as JSON, once all are ready; removed at "
                  "the end");
  AddColourOption(*app, options->colour);
  return {.app = app, .run = [options] { return RunUp(*options); }};
}

}  // namespace tandem::cli
