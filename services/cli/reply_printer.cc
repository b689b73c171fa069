#include "services/cli/reply_printer.h"

#include <unistd.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/rpc/outcome.h"
#include "services/cli/statistics.h"

namespace tandem::cli {
namespace {

std::string AcceptanceText(const v1::Usage& usage) {
  DraftCounts counts;
  counts.Add(usage);
  std::string shares, depths;
  const std::vector<double> acceptance = counts.AcceptanceByDepth();
  for (size_t i = 0; i < acceptance.size(); ++i) {
    if (std::isnan(acceptance[i])) continue;
    absl::StrAppendFormat(&shares, " %.0f%%", 100 * acceptance[i]);
    absl::StrAppend(&depths, depths.empty() ? "" : " ", i + 1);
  }
  if (shares.empty()) return "no drafts";
  return absl::StrCat("accepted", shares, " (depth ", depths, ")");
}

}  // namespace

void ReplyPrinter::Print(const v1::Delta& delta) {
  if (options_.show_drafts) {
    const std::vector<bool> drafts = AcceptedDrafts(delta.rounds(), delta.token_ids_size());
    for (int i = 0; i < delta.token_ids_size(); ++i) {
      // Without the bytes of a token its text is shown as not drafted.
      if (const auto piece = pieces_->Get(delta.token_ids(i)); piece.ok()) {
        painter_.AddToken(*piece, drafts[static_cast<size_t>(i)]);
      }
    }
  }
  std::string out = PaintText(delta.reasoning_text(), true);
  if (reasoning_ && !delta.text().empty()) {
    reasoning_ = false;
    absl::StrAppend(&out, "\n");
  }
  if (!delta.reasoning_text().empty() && delta.text().empty()) reasoning_ = true;
  absl::StrAppend(&out, PaintText(delta.text(), false));
  WriteAll(STDOUT_FILENO, out);
}

std::string ReplyPrinter::PaintText(absl::string_view text, bool reasoning) {
  const Colour plain = reasoning ? Colour::kGrey : Colour::kNone;
  if (!options_.show_drafts) return Paint(plain, text, options_.colour);
  std::string out;
  for (const DraftSpan& span : painter_.AddText(text)) {
    if (options_.colour) {
      absl::StrAppend(&out, Paint(span.draft ? Colour::kGreen : plain, span.text, true));
    } else if (span.draft) {
      absl::StrAppend(&out, "⟦", span.text, "⟧");
    } else {
      absl::StrAppend(&out, span.text);
    }
  }
  return out;
}

std::string Summary(const Reply& reply) {
  const v1::Usage& usage = reply.usage();
  DraftCounts counts;
  counts.Add(usage);
  std::string text =
      absl::StrFormat("%d tokens in %d steps", usage.generated_tokens(), usage.rounds());
  if (usage.rounds() > 0) {
    absl::StrAppendFormat(&text, ", %.2f tokens per step", counts.TokensPerStep());
  }
  if (const double rate = reply.DecodeTokensPerSecond(); std::isfinite(rate)) {
    absl::StrAppendFormat(&text, ", %.1f tok/s", rate);
  }
  if (reply.finished()) {
    absl::StrAppend(&text, ", ended by ", FinishReasonName(reply.finished()->reason()));
  }
  absl::StrAppendFormat(&text, "\n%s; first token %.1f ms", AcceptanceText(usage),
                        1000 * reply.first_token_seconds());
  return text;
}

}  // namespace tandem::cli
