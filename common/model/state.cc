#include "common/model/state.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "kernels/lanes.h"
#include "kernels/replay/replay.h"

namespace tandem {
namespace {

// What precedes the floats of a saved state.
struct SavedHeader {
  int32_t layers = 0;
  int32_t width = 0;
};

// Floats of one layer of one slot.
size_t StateFloats(const ModelConfig& config) {
  return static_cast<size_t>(config.width) * (2 + kHeadSize);
}
size_t LogFloats(const ModelConfig& config) {
  return static_cast<size_t>(config.width) * kMaxDrafts * (2 + 5);
}

}  // namespace

struct RecurrentState::Impl {
  Backend* backend = nullptr;
  ModelConfig config;
  int slots = 0;
  size_t state_stride = 0;  // floats
  size_t log_stride = 0;
  float* states = nullptr;            // [S, L, C + C + 64C]
  float* logs = nullptr;              // [S, L, kMaxDrafts * (C + C + 5C)]
  int32_t* accepted = nullptr;        // [S]
  int32_t* slot_ids = nullptr;        // [S]: 0 .. S - 1
  std::vector<bool> used;             // [S]
  std::vector<uint32_t> generations;  // [S], of the last owner
  int free = 0;

  float* State(int index) const { return states + static_cast<size_t>(index) * state_stride; }
  float* Log(int index) const { return logs + static_cast<size_t>(index) * log_stride; }
  size_t StateBytes() const { return state_stride * sizeof(float); }
  size_t LogBytes() const { return log_stride * sizeof(float); }

  void WriteAccepted(int index, int32_t count) {
    backend->CopyIn(accepted + index, &count, sizeof(count));
  }
  // In debug builds a returned slot holds NaN, so that whoever still reads it is noticed.
  void Poison(int index) {
#ifndef NDEBUG
    const std::vector<float> poison(std::max(state_stride, log_stride),
                                    std::numeric_limits<float>::quiet_NaN());
    backend->CopyIn(State(index), poison.data(), StateBytes());
    backend->CopyIn(Log(index), poison.data(), LogBytes());
#else
    (void)index;
#endif
  }
};

Slot::~Slot() {
  if (owner_ != nullptr) owner_->Release(index_);
}

Slot::Slot(Slot&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      index_(std::exchange(other.index_, -1)),
      generation_(std::exchange(other.generation_, 0)) {}

Slot& Slot::operator=(Slot&& other) noexcept {
  if (this == &other) return *this;
  if (owner_ != nullptr) owner_->Release(index_);
  owner_ = std::exchange(other.owner_, nullptr);
  index_ = std::exchange(other.index_, -1);
  generation_ = std::exchange(other.generation_, 0);
  return *this;
}

RecurrentState::RecurrentState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecurrentState::~RecurrentState() {
  CHECK_EQ(impl_->free, impl_->slots) << "a slot outlived its state";
}

size_t RecurrentState::Bytes(const ModelConfig& config, int slots) {
  const size_t floats =
      (StateFloats(config) + LogFloats(config)) * static_cast<size_t>(config.layers);
  return static_cast<size_t>(slots) * (floats * sizeof(float) + 2 * sizeof(int32_t));
}

absl::StatusOr<std::unique_ptr<RecurrentState>> RecurrentState::Create(Backend* backend,
                                                                       const ModelConfig& config,
                                                                       int slots) {
  CHECK_GE(slots, 1);
  auto impl = std::make_unique<Impl>();
  impl->backend = backend;
  impl->config = config;
  impl->slots = impl->free = slots;
  impl->state_stride = StateFloats(config) * config.layers;
  impl->log_stride = LogFloats(config) * config.layers;
  const size_t count = static_cast<size_t>(slots);
  impl->states = static_cast<float*>(backend->Allocate(count * impl->StateBytes()));
  impl->logs = static_cast<float*>(backend->Allocate(count * impl->LogBytes()));
  impl->accepted = static_cast<int32_t*>(backend->Allocate(count * sizeof(int32_t)));
  impl->slot_ids = static_cast<int32_t*>(backend->Allocate(count * sizeof(int32_t)));
  if (impl->states == nullptr || impl->logs == nullptr || impl->accepted == nullptr ||
      impl->slot_ids == nullptr) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%d slots need %.1f MiB of %s memory (%.2f MiB each); use fewer slots: lower "
        "--max-sequences",
        slots, static_cast<double>(count * (impl->StateBytes() + impl->LogBytes())) / (1 << 20),
        backend->name(), static_cast<double>(impl->StateBytes() + impl->LogBytes()) / (1 << 20)));
  }
  impl->used.assign(count, false);
  impl->generations.assign(count, 0);
  std::vector<int32_t> ids(count);
  for (int i = 0; i < slots; ++i) ids[static_cast<size_t>(i)] = i;
  backend->CopyIn(impl->slot_ids, ids.data(), count * sizeof(int32_t));
  return std::unique_ptr<RecurrentState>(new RecurrentState(std::move(impl)));
}

absl::StatusOr<Slot> RecurrentState::Acquire() {
  for (int i = 0; i < impl_->slots; ++i) {
    const size_t at = static_cast<size_t>(i);
    if (impl_->used[at]) continue;
    impl_->used[at] = true;
    --impl_->free;
    if (++impl_->generations[at] == 0) impl_->generations[at] = 1;
    impl_->backend->Zero(impl_->State(i), impl_->StateBytes());
    impl_->WriteAccepted(i, 0);
    return Slot(this, i, impl_->generations[at]);
  }
  return absl::ResourceExhaustedError(
      absl::StrFormat("all %d state slots are in use", impl_->slots));
}

void RecurrentState::Release(int index) {
  const size_t at = static_cast<size_t>(index);
  CHECK(impl_->used[at]) << "slot " << index << " was released twice";
  impl_->used[at] = false;
  ++impl_->free;
  impl_->Poison(index);
}

int RecurrentState::slots() const { return impl_->slots; }
int RecurrentState::free_slots() const { return impl_->free; }
int32_t* RecurrentState::accepted() const { return impl_->accepted; }
size_t RecurrentState::state_stride() const { return impl_->state_stride; }
size_t RecurrentState::log_stride() const { return impl_->log_stride; }

void RecurrentState::SetAccepted(const Slot& slot, int count) {
  CHECK(slot.owner_ == this);
  CHECK(count >= 0 && count <= kMaxDrafts) << "accepted " << count;
  impl_->WriteAccepted(slot.index(), count);
}

RecurrentState::Layer RecurrentState::layer(int index) const {
  const size_t width = static_cast<size_t>(impl_->config.width);
  float* state = impl_->states + static_cast<size_t>(index) * StateFloats(impl_->config);
  float* log = impl_->logs + static_cast<size_t>(index) * LogFloats(impl_->config);
  return {.att_shift = state,
          .ffn_shift = state + width,
          .wkv = state + 2 * width,
          .att_shift_log = log,
          .ffn_shift_log = log + kMaxDrafts * width,
          .wkv_log = log + 2 * kMaxDrafts * width};
}

void RecurrentState::Settle(const Slot& slot) {
  CHECK(slot.owner_ == this);
  for (int i = 0; i < impl_->config.layers; ++i) {
    const Layer at = layer(i);
    impl_->backend->Replay({.width = impl_->config.width,
                            .slots = {impl_->slot_ids + slot.index(), 1},
                            .accepted = impl_->accepted,
                            .att_shift = {.committed = at.att_shift,
                                          .committed_stride = impl_->state_stride,
                                          .log = at.att_shift_log,
                                          .log_stride = impl_->log_stride},
                            .ffn_shift = {.committed = at.ffn_shift,
                                          .committed_stride = impl_->state_stride,
                                          .log = at.ffn_shift_log,
                                          .log_stride = impl_->log_stride},
                            .wkv = {.committed = at.wkv,
                                    .committed_stride = impl_->state_stride,
                                    .log = at.wkv_log,
                                    .log_stride = impl_->log_stride}});
  }
  impl_->WriteAccepted(slot.index(), 0);
}

SavedState RecurrentState::Save(const Slot& slot) {
  Settle(slot);
  const SavedHeader header = {.layers = impl_->config.layers, .width = impl_->config.width};
  SavedState saved(sizeof(header) + impl_->StateBytes());
  std::memcpy(saved.data(), &header, sizeof(header));
  impl_->backend->CopyOut(saved.data() + sizeof(header), impl_->State(slot.index()),
                          impl_->StateBytes());
  impl_->backend->Wait();
  return saved;
}

absl::Status RecurrentState::Load(const Slot& slot, const SavedState& saved) {
  CHECK(slot.owner_ == this);
  SavedHeader header;
  if (saved.size() < sizeof(header)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("saved state: %d bytes are too few for its header", saved.size()));
  }
  std::memcpy(&header, saved.data(), sizeof(header));
  const size_t expected = sizeof(header) + impl_->StateBytes();
  if (header.layers != impl_->config.layers || header.width != impl_->config.width ||
      saved.size() != expected) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "saved state has %d layers, width %d and %d bytes; this model needs %d, %d and %d",
        header.layers, header.width, saved.size(), impl_->config.layers, impl_->config.width,
        expected));
  }
  impl_->backend->CopyIn(impl_->State(slot.index()), saved.data() + sizeof(header),
                         impl_->StateBytes());
  impl_->WriteAccepted(slot.index(), 0);
  return absl::OkStatus();
}

}  // namespace tandem
