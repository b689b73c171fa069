#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace tandem {

// The CPU backend with a clock around every op.
class TimedBackend final : public Backend {
 public:
  explicit TimedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

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
  size_t PackedBytes(const Matrix& shape) const override {
    return inner_->PackedBytes(shape);
  }
  void Pack(void* to, const Matrix& shape, const uint16_t* bf16) override {
    inner_->Pack(to, shape, bf16);
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
    const auto start = std::chrono::steady_clock::now();
    op();
    const auto end = std::chrono::steady_clock::now();
    totals_[name] += std::chrono::duration<double, std::milli>(end - start).count();
  }

  std::unique_ptr<Backend> inner_;
  std::map<std::string, double> totals_;
};

}  // namespace tandem
