#include "services/cli/model_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp_file.h"
#include "common/drafter/mtp/mtp_path.h"
#include "common/tokenizer/vocabulary.h"
#include "kernels/lanes.h"

namespace tandem::cli {
namespace {

constexpr double kMiB = 1 << 20;
constexpr size_t kMaxVocabularyFile = 64 << 20;

struct PublishedSize {
  const char* name;
  int layers;
  int width;
};
constexpr PublishedSize kPublishedSizes[] = {{"0.1B", 12, 768},  {"0.4B", 24, 1024},
                                             {"1.5B", 24, 2048}, {"2.9B", 32, 2560},
                                             {"7.2B", 32, 4096}, {"13.3B", 61, 4096}};

absl::StatusOr<SidecarReport> InspectSidecar(const WeightsSource& source,
                                             const std::string& mtp_path, bool force) {
  SidecarReport report;
  if (mtp_path == "off") {
    report.reason = "switched off";
    return report;
  }
  ASSIGN_OR_RETURN(const auto folder, ResolveMtpPath(mtp_path, source.path().folder));
  if (!folder) {
    report.reason = absl::StrCat("no folder mtp in ", source.path().folder);
    return report;
  }
  report.folder = *folder;
  const ModelConfig& config = source.config();
  const auto file = MtpFile::Open(*folder,
                                  {.name = source.name(),
                                   .layers = config.layers,
                                   .width = config.width,
                                   .vocab = config.vocab},
                                  force);
  if (!file.ok()) {
    report.reason = std::string(file.status().message());
    return report;
  }
  report.matches = true;
  report.reason = absl::StrJoin((*file)->warnings(), "; ");
  report.parameters = (*file)->parameter_count();
  report.depth = (*file)->config().depth;
  report.window = (*file)->config().window;
  report.draft_vocabulary = static_cast<int64_t>((*file)->draft_vocab().size());
  report.training_tokens = (*file)->config().tokens;
  return report;
}

void InspectVocabulary(ModelReport& report) {
  if (report.vocabulary_file.empty()) return;
  const auto text = ReadFile(report.vocabulary_file, kMaxVocabularyFile);
  const auto vocabulary =
      text.ok() ? Vocabulary::Parse(*text, report.vocabulary_file, report.config.vocab)
                : text.status();
  if (vocabulary.ok()) {
    report.vocabulary_tokens = vocabulary->size();
  } else {
    report.vocabulary_error = std::string(vocabulary.status().message());
  }
}

std::string VocabularyText(const ModelReport& report) {
  if (report.vocabulary_file.empty()) return "none: the model serves token ids only";
  return report.vocabulary_error.empty()
             ? absl::StrCat(report.vocabulary_file, ", ", report.vocabulary_tokens, " tokens")
             : absl::StrCat(report.vocabulary_file,
                            "\n             not usable: ", report.vocabulary_error);
}

void AddSidecarMemory(const SidecarReport& sidecar, int max_sequences, MemoryEstimate& memory) {
  if (!sidecar.matches) return;
  memory.sidecar_weights = sidecar.parameters * 2;
  // Keys and values of window + kMaxDrafts positions in fp32.
  memory.sidecar_ring =
      int64_t{max_sequences} * (sidecar.window + kMaxDrafts) * 2 * kMtpKeyHeads * kMtpHeadWidth * 4;
}

std::string MiB(int64_t bytes) { return absl::StrFormat("%.1f MiB", bytes / kMiB); }

std::string SidecarText(const SidecarReport& sidecar) {
  if (sidecar.folder.empty()) return absl::StrCat("none: ", sidecar.reason);
  if (!sidecar.matches) {
    return absl::StrCat(sidecar.folder, "\n             not usable: ", sidecar.reason);
  }
  std::string text = absl::StrFormat(
      "%s\n             matches; %d parameters, trained depth %d, window %d,\n"
      "             %d draft tokens",
      sidecar.folder, sidecar.parameters, sidecar.depth, sidecar.window, sidecar.draft_vocabulary);
  if (!sidecar.reason.empty()) absl::StrAppend(&text, "\n             forced: ", sidecar.reason);
  return text;
}

}  // namespace

std::string SizeClass(int layers, int width, int64_t parameters) {
  for (const PublishedSize& size : kPublishedSizes) {
    if (size.layers == layers && size.width == width) return size.name;
  }
  const double millions = static_cast<double>(parameters) / 1e6;
  return millions < 1000 ? absl::StrFormat("%.1fM", millions)
                         : absl::StrFormat("%.1fB", millions / 1000);
}

MemoryEstimate EstimateMemory(const ModelConfig& config, int64_t weights, int max_sequences) {
  const int64_t channels = int64_t{max_sequences} * config.layers * config.width;
  return {.weights = weights,
          // Both token shifts and the wkv state, fp32.
          .state = channels * (2 + kHeadSize) * 4,
          // Both shift inputs and w, k, v, u, b of each provisional token, fp32.
          .log = channels * kMaxDrafts * (2 + 5) * 4};
}

absl::StatusOr<ModelReport> InspectModel(const std::string& path, const std::string& mtp_path,
                                         bool mtp_force, int max_sequences) {
  ASSIGN_OR_RETURN(const auto source, WeightsSource::Open(path));
  ModelReport report{.name = source->name(),
                     .checkpoint = source->path().checkpoint,
                     .hash = HashHex(source->content_hash()),
                     .config = source->config(),
                     .parameters = source->parameter_count(),
                     .components = source->components(),
                     .integer_rounded = source->integer_rounded(),
                     .vocabulary_file = source->path().vocab,
                     .max_sequences = max_sequences};
  report.size_class = SizeClass(report.config.layers, report.config.width, report.parameters);
  int64_t weights = 0;
  for (const WeightsComponent& component : report.components) weights += component.loaded_bytes;
  report.memory = EstimateMemory(report.config, weights, max_sequences);
  InspectVocabulary(report);
  ASSIGN_OR_RETURN(report.sidecar, InspectSidecar(*source, mtp_path, mtp_force));
  AddSidecarMemory(report.sidecar, max_sequences, report.memory);
  return report;
}

nlohmann::json ReportJson(const ModelReport& report) {
  const ModelConfig& config = report.config;
  nlohmann::json json = {{"name", report.name},
                         {"architecture", "rwkv7"},
                         {"size_class", report.size_class},
                         {"checkpoint", report.checkpoint},
                         {"hash", report.hash},
                         {"layers", config.layers},
                         {"width", config.width},
                         {"heads", config.heads},
                         {"ffn", config.ffn},
                         {"vocabulary_size", config.vocab},
                         {"ranks",
                          {{"w", config.decay_rank},
                           {"a", config.icl_rank},
                           {"v", config.value_rank},
                           {"g", config.gate_rank}}},
                         {"parameters", report.parameters},
                         {"integer_rounded_matrices", report.integer_rounded},
                         {"vocabulary_file", report.vocabulary_file},
                         {"vocabulary_tokens", report.vocabulary_tokens},
                         {"vocabulary_error", report.vocabulary_error},
                         {"max_sequences", report.max_sequences},
                         {"memory_bytes",
                          {{"weights", report.memory.weights},
                           {"state", report.memory.state},
                           {"log", report.memory.log},
                           {"sidecar_weights", report.memory.sidecar_weights},
                           {"sidecar_ring", report.memory.sidecar_ring},
                           {"total", report.memory.total()}}},
                         {"sidecar",
                          {{"folder", report.sidecar.folder},
                           {"found", !report.sidecar.folder.empty()},
                           {"matches", report.sidecar.matches},
                           {"reason", report.sidecar.reason},
                           {"parameters", report.sidecar.parameters},
                           {"depth", report.sidecar.depth},
                           {"window", report.sidecar.window},
                           {"draft_vocabulary", report.sidecar.draft_vocabulary},
                           {"training_tokens", report.sidecar.training_tokens}}}};
  for (const WeightsComponent& component : report.components) {
    json["components"].push_back({{"name", component.name},
                                  {"parameters", component.parameters},
                                  {"dtype", component.dtype}});
  }
  return json;
}

std::string ReportText(const ModelReport& report) {
  const ModelConfig& config = report.config;
  std::string text = absl::StrFormat(
      "model        %s, RWKV-7 of size %s\n"
      "checkpoint   %s (hash %s)\n"
      "shape        %d layers, width %d, %d heads, ffn %d, vocabulary %d,\n"
      "             ranks w %d a %d v %d g %d\n"
      "parameters   %d\n",
      report.name, report.size_class, report.checkpoint, report.hash, config.layers, config.width,
      config.heads, config.ffn, config.vocab, config.decay_rank, config.icl_rank, config.value_rank,
      config.gate_rank, report.parameters);
  for (const WeightsComponent& component : report.components) {
    absl::StrAppendFormat(&text, "  %-20s %14d  %s\n", component.name, component.parameters,
                          component.dtype);
  }
  if (report.integer_rounded > 0) {
    absl::StrAppendFormat(&text,
                          "             %d fp8 matrices were rounded to integers first: weights\n"
                          "             below 1.8 %% of the largest have lost precision\n",
                          report.integer_rounded);
  }
  const MemoryEstimate& memory = report.memory;
  absl::StrAppendFormat(&text,
                        "memory       %s at %d sequences: weights %s, states %s,\n"
                        "             rollback logs %s, sidecar %s with rings %s\n"
                        "vocabulary   %s\n"
                        "sidecar      %s\n",
                        MiB(memory.total()), report.max_sequences, MiB(memory.weights),
                        MiB(memory.state), MiB(memory.log), MiB(memory.sidecar_weights),
                        MiB(memory.sidecar_ring), VocabularyText(report),
                        SidecarText(report.sidecar));
  return text;
}

}  // namespace tandem::cli
