#include "common/model/activations.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "kernels/linear/linear.h"

namespace tandem {
namespace {

// One allocation for all buffers, measured first and then dealt out.
class Areas final {
 public:
  template <class T>
  void Add(T** field, size_t count) {
    fields_.push_back({reinterpret_cast<void**>(field), bytes_});
    bytes_ += (count * sizeof(T) + 63) / 64 * 64;
  }
  size_t bytes() const { return bytes_; }
  void Deal(void* memory) const {
    for (const Field& field : fields_) *field.at = static_cast<uint8_t*>(memory) + field.offset;
  }

 private:
  struct Field {
    void** at;
    size_t offset;
  };
  std::vector<Field> fields_;
  size_t bytes_ = 0;
};

void AddInputs(Areas& areas, PassInputs* inputs, size_t rows, size_t lanes, size_t wanted) {
  areas.Add(&inputs->feature_rows, 1);
  areas.Add(&inputs->tokens, rows);
  areas.Add(&inputs->offsets, lanes + 1);
  areas.Add(&inputs->slots, lanes);
  areas.Add(&inputs->provisional, lanes);
  areas.Add(&inputs->logit_rows, wanted);
  areas.Add(&inputs->row_tokens, wanted);
}

// Of the largest pass: `rows` tokens of `lanes` sequences with `wanted` logit rows.
Areas LayOut(ActivationBuffers& to, const ModelConfig& config, size_t rows, size_t wanted,
             size_t lanes) {
  const size_t row_width = rows * config.width;
  Areas layout;
  AddInputs(layout, &to, rows, lanes, wanted);
  for (float** field : {&to.x, &to.h, &to.r, &to.k, &to.v, &to.v_first, &to.y}) {
    layout.Add(field, row_width);
  }
  layout.Add(&to.mixed, 6 * row_width);
  layout.Add(&to.scratch, 4 * row_width);
  layout.Add(&to.w_low, rows * config.decay_rank);
  layout.Add(&to.a_low, rows * config.icl_rank);
  layout.Add(&to.v_low, rows * config.value_rank);
  layout.Add(&to.g_low, rows * config.gate_rank);
  layout.Add(&to.act, rows * config.ffn);
  layout.Add(&to.head_h, wanted * config.width);
  layout.Add(&to.logits, wanted * config.vocab);
  return layout;
}

}  // namespace

void Activations::Impl::Upload(const DecodeBatch& batch, float* features) {
  CHECK_LE(batch.rows(), max_rows);
  CHECK_LE(batch.lanes(), max_lanes);
  logit_count = static_cast<int>(batch.logit_rows.size());
  CHECK_LE(logit_count, max_logit_rows);
  *host.feature_rows = features;
  absl::c_copy(batch.tokens, host.tokens);
  absl::c_copy(batch.offsets, host.offsets);
  absl::c_copy(batch.slots, host.slots);
  absl::c_copy(batch.provisional, host.provisional);
  absl::c_copy(batch.logit_rows, host.logit_rows);
  absl::c_transform(batch.logit_rows, host.row_tokens,
                    [&](int32_t row) { return batch.tokens[static_cast<size_t>(row)]; });
  backend->CopyIn(feature_rows, host_block.data(), host_block.size() * sizeof(uint64_t));
}

Activations::Activations(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Activations::~Activations() = default;

absl::StatusOr<std::unique_ptr<Activations>> Activations::Create(Backend* backend,
                                                                 const ModelConfig& config,
                                                                 int max_rows, int max_logit_rows,
                                                                 int max_lanes) {
  auto impl = std::make_unique<Impl>();
  impl->backend = backend;
  impl->max_rows = max_rows;
  impl->max_logit_rows = max_logit_rows;
  impl->max_lanes = max_lanes;
  impl->vocab = config.vocab;
  const size_t rows = static_cast<size_t>(max_rows), wanted = static_cast<size_t>(max_logit_rows),
               lanes = static_cast<size_t>(max_lanes);
  const Areas layout = LayOut(*impl, config, rows, wanted, lanes);
  void* memory = backend->Allocate(layout.bytes());
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("passes of %d tokens with %d logit rows need %.1f MiB of %s memory, which "
                        "is not available; "
                        "lower --prefill-budget or --max-sequences",
                        max_rows, max_logit_rows, static_cast<double>(layout.bytes()) / (1 << 20),
                        backend->name()));
  }
  layout.Deal(memory);
  if (!backend->ReserveLinear(LinearOps(config, max_rows))) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("the linear ops of passes of %d tokens need more %s memory than is "
                        "available; lower --prefill-budget or --max-sequences",
                        max_rows, backend->name()));
  }
  Areas host;
  AddInputs(host, &impl->host, rows, lanes, wanted);
  impl->host_block.resize(host.bytes() / sizeof(uint64_t));
  host.Deal(impl->host_block.data());
  return std::unique_ptr<Activations>(new Activations(std::move(impl)));
}

size_t Activations::Bytes(const ModelConfig& config, int max_rows, int max_logit_rows,
                          int max_lanes) {
  ActivationBuffers buffers;
  return LayOut(buffers, config, static_cast<size_t>(max_rows), static_cast<size_t>(max_logit_rows),
                static_cast<size_t>(max_lanes))
      .bytes();
}

LinearReserve Activations::LinearOps(const ModelConfig& config, int max_rows) {
  // r, k and v are made by one op.
  const int inputs = std::max(3 * config.width, config.ffn);
  return {.rows = max_rows, .inputs = static_cast<size_t>(inputs)};
}

int Activations::max_rows() const { return impl_->max_rows; }
View<const float> Activations::logits() const {
  return {impl_->logits, static_cast<size_t>(impl_->logit_count) * impl_->vocab};
}
View<const int32_t> Activations::row_tokens() const {
  return {impl_->row_tokens, static_cast<size_t>(impl_->logit_count)};
}

}  // namespace tandem
