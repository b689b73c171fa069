#include "common/drafter/mtp/mtp_inputs.h"

#include <type_traits>

namespace tandem {
namespace {

class Divider final {
 public:
  Divider(std::byte* host, std::byte* device) : host_(host), device_(device) {}

  template <class Input>
  void Take(int count, Input& input) {
    using T = std::remove_pointer_t<decltype(input.host.data)>;
    const size_t size = static_cast<size_t>(count);
    if (host_ != nullptr) input.host = {reinterpret_cast<T*>(host_ + used_), size};
    if (device_ != nullptr) input.device = {reinterpret_cast<T*>(device_ + used_), size};
    used_ += (size * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  size_t used() const { return used_; }

 private:
  static constexpr size_t kAlignment = 16;
  std::byte* host_;
  std::byte* device_;
  size_t used_ = 0;
};

}  // namespace

MtpCounts CountsOf(absl::Span<const MtpFeed> feeds) {
  MtpCounts counts = {.feeds = static_cast<int>(feeds.size())};
  for (const MtpFeed& feed : feeds) {
    counts.rows += feed.rows();
    counts.queries += feed.rows() > 1 ? 2 : 1;
    counts.prompt |= feed.count > kMaxDrafts + 1;
    for (int k = 1; k <= feed.wanted; ++k) ++counts.drafts[k];
  }
  return counts;
}

MtpInputs MtpInputs::Divide(const MtpCounts& counts, std::byte* host, std::byte* device) {
  MtpInputs inputs;
  Divider divider(host, device);
  divider.Take(counts.rows, inputs.features);
  divider.Take(counts.rows, inputs.positions);
  divider.Take(counts.rows, inputs.first);
  divider.Take(counts.rows, inputs.tokens);
  divider.Take(counts.rows, inputs.slots);
  divider.Take(counts.queries, inputs.query_rows);
  divider.Take(counts.queries, inputs.z);
  divider.Take(counts.drafts[1], inputs.z_prev);
  divider.Take(counts.drafts[1], inputs.draft_slots);
  divider.Take(counts.drafts[1], inputs.draft_first);
  for (int k = 2; k <= kMaxDrafts; ++k) divider.Take(counts.drafts[k], inputs.draft_positions[k]);
  inputs.bytes = divider.used();
  return inputs;
}

}  // namespace tandem
