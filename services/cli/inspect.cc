#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "services/cli/command.h"
#include "services/cli/model_report.h"
#include "services/cli/option_values.h"
#include "services/cli/terminal.h"

namespace tandem::cli {
namespace {

struct InspectOptions {
  std::string model;
  std::string mtp_path = "auto";
  bool mtp_force = false;
  int max_sequences = 32;
  bool json = false;
};

absl::Status RunInspect(const InspectOptions& options) {
  const auto report =
      InspectModel(options.model, options.mtp_path, options.mtp_force, options.max_sequences);
  if (!report.ok()) return AsUsageError(report.status());
  WriteAll(
      STDOUT_FILENO,
      options.json
          ? ReportJson(*report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
          : ReportText(*report));
  return absl::OkStatus();
}

}  // namespace

Command MakeInspectCommand(CLI::App& root) {
  CLI::App* app = root.add_subcommand("inspect",
                                      "Say what a model is, what it needs, and whether "
                                      "its sidecar fits");
  auto options = std::make_shared<InspectOptions>();
  app->add_option("model", options->model, "Model folder or checkpoint file")->required();
  AddCountOption(*app, "--max-sequences", options->max_sequences, 1, 1 << 20,
                 "Replies generated at the same time, for the memory");
  app->add_option("--mtp-path", options->mtp_path, "Sidecar: auto, off, or a folder")
      ->envname("RWKV_MTP_PATH")
      ->capture_default_str();
  app->add_flag("--mtp-force", options->mtp_force,
                "Accept a sidecar that was made for another model");
  app->add_flag("--json", options->json, "Print one JSON object");
  return {.app = app, .run = [options] { return RunInspect(*options); }};
}

}  // namespace tandem::cli
