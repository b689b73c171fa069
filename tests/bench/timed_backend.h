#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"
#include "tests/bench/live_inputs.h"

namespace tandem {

// A backend with a clock around every op, which waits for it. Nothing is recorded while anything is
// measured.
class TimedBackend final : public Backend {
 public:
  enum class Measure { kNothing, kTime, kLive };

  explicit TimedBackend(std::unique_ptr<Backend> inner, Measure measure = Measure::kTime)
      : inner_(std::move(inner)), measure_(measure) {}

  void set_measure(Measure measure) { measure_ = measure; }
  // What Measure::kLive has counted.
  LiveInputs Live() { return std::exchange(live_, {}); }

  // Milliseconds per op since the last call.
  std::map<std::string, double> Totals() { return std::exchange(totals_, {}); }

  const char* name() const override { return inner_->name(); }
  int threads() const override { return inner_->threads(); }
  void* Allocate(size_t bytes) override { return inner_->Allocate(bytes); }
  void* AllocateExported(size_t bytes, ExportHandle* handle) override {
    return inner_->AllocateExported(bytes, handle);
  }
  bool SealForReaders(const ExportHandle& handle) override {
    return inner_->SealForReaders(handle);
  }
  void* Import(const ExportHandle& handle, bool writable) override {
    return inner_->Import(handle, writable);
  }
  void Unimport(void* memory) override { inner_->Unimport(memory); }
  void CopyIn(void* to, const void* from, size_t bytes) override {
    inner_->CopyIn(to, from, bytes);
  }
  void CopyOut(void* to, const void* from, size_t bytes) override {
    inner_->CopyOut(to, from, bytes);
  }
  void Copy(void* to, const void* from, size_t bytes) override { inner_->Copy(to, from, bytes); }
  void Zero(void* to, size_t bytes) override { inner_->Zero(to, bytes); }
  void Wait() override { inner_->Wait(); }
  void RunRecorded(const GraphKey& key, const std::function<void()>& enqueue) override {
    if (measure_ != Measure::kNothing) return enqueue();
    inner_->RunRecorded(key, enqueue);
  }
  GraphCounts graph_counts() const override { return inner_->graph_counts(); }
  size_t PackedBytes(const Matrix& shape) const override { return inner_->PackedBytes(shape); }
  void Pack(void* to, const Matrix& shape, const uint16_t* bf16) override {
    inner_->Pack(to, shape, bf16);
  }
  void FillRandom(float* to, size_t count, const RandomFill& fill) override {
    inner_->FillRandom(to, count, fill);
  }
  void PackRandom(void* to, const Matrix& shape, const RandomFill& fill) override {
    inner_->PackRandom(to, shape, fill);
  }

  void Embed(const EmbedArgs& args) override {
    Timed("Embed", [&] { inner_->Embed(args); });
  }
  void TimeMixIn(const TimeMixInArgs& args) override {
    Timed("TimeMixIn", [&] { inner_->TimeMixIn(args); });
  }
  void TimeMixCore(const TimeMixCoreArgs& args) override {
    Timed("TimeMixCore", [&] { inner_->TimeMixCore(args); });
  }
  void TimeMixOut(const TimeMixOutArgs& args) override {
    Timed("TimeMixOut", [&] { inner_->TimeMixOut(args); });
  }
  void ChannelMixKey(const ChannelMixKeyArgs& args) override {
    Timed("ChannelMixKey", [&] { inner_->ChannelMixKey(args); });
  }
  void ChannelMixValue(const ChannelMixValueArgs& args) override {
    Timed("ChannelMixValue", [&] { inner_->ChannelMixValue(args); });
    if (measure_ == Measure::kLive) live_.Add(CountLive(*inner_, args));
  }
  void Replay(const ReplayArgs& args) override {
    Timed("Replay", [&] { inner_->Replay(args); });
  }
  void Head(const HeadArgs& args) override {
    Timed("Head", [&] { inner_->Head(args); });
  }
  void Linear(const LinearArgs& args) override {
    Timed("Linear", [&] { inner_->Linear(args); });
  }
  void Accept(const AcceptArgs& args) override {
    Timed("Accept", [&] { inner_->Accept(args); });
  }
  void DraftFuse(const DraftFuseArgs& args) override {
    Timed("DraftFuse", [&] { inner_->DraftFuse(args); });
  }
  void Attend(const AttendArgs& args) override {
    Timed("Attend", [&] { inner_->Attend(args); });
  }
  void DraftMix(const DraftMixArgs& args) override {
    Timed("DraftMix", [&] { inner_->DraftMix(args); });
  }
  void DraftHead(const DraftHeadArgs& args) override {
    Timed("DraftHead", [&] { inner_->DraftHead(args); });
  }

 private:
  template <class Op>
  void Timed(const char* name, const Op& op) {
    if (measure_ != Measure::kTime) return op();
    const auto start = std::chrono::steady_clock::now();
    op();
    inner_->Wait();
    const auto end = std::chrono::steady_clock::now();
    totals_[name] += std::chrono::duration<double, std::milli>(end - start).count();
  }

  std::unique_ptr<Backend> inner_;
  Measure measure_;
  LiveInputs live_;
  std::map<std::string, double> totals_;
};

}  // namespace tandem
