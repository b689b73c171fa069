#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "kernels/backend.h"

namespace tandem {

// Hands every call to another backend: the base of test backends that change some of them.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> real) : real_(std::move(real)) {}

  const char* name() const override { return real_->name(); }
  int threads() const override { return real_->threads(); }
  void* Allocate(size_t bytes) override { return real_->Allocate(bytes); }
  void* AllocateExported(size_t bytes, ExportHandle* handle) override {
    return real_->AllocateExported(bytes, handle);
  }
  bool SealForReaders(const ExportHandle& handle) override { return real_->SealForReaders(handle); }
  void* Import(const ExportHandle& handle, bool writable) override {
    return real_->Import(handle, writable);
  }
  void Unimport(void* memory) override { real_->Unimport(memory); }
  void CopyIn(void* to, const void* from, size_t n) override { real_->CopyIn(to, from, n); }
  void CopyOut(void* to, const void* from, size_t n) override { real_->CopyOut(to, from, n); }
  void Copy(void* to, const void* from, size_t n) override { real_->Copy(to, from, n); }
  void Zero(void* to, size_t bytes) override { real_->Zero(to, bytes); }
  void Wait() override { real_->Wait(); }
  bool has_words() const override { return real_->has_words(); }
  void WaitWord(uint32_t* word, uint32_t value) override { real_->WaitWord(word, value); }
  void WriteWord(uint32_t* word, uint32_t value) override { real_->WriteWord(word, value); }
  bool ReleaseWait() override { return real_->ReleaseWait(); }
  void Stamp(uint64_t* to) override { real_->Stamp(to); }
  void RunRecorded(const GraphKey& key, const std::function<void()>& enqueue) override {
    real_->RunRecorded(key, enqueue);
  }
  bool records() const override { return real_->records(); }
  GraphCounts graph_counts() const override { return real_->graph_counts(); }
  size_t PackedBytes(const Matrix& shape) const override { return real_->PackedBytes(shape); }
  std::optional<size_t> FreeBytes() const override { return real_->FreeBytes(); }
  bool Pack(void* to, const Matrix& shape, const uint16_t* bf16) override {
    return real_->Pack(to, shape, bf16);
  }
  bool PackCodes(void* to, const Matrix& shape, const MatrixCodes& codes) override {
    return real_->PackCodes(to, shape, codes);
  }
  bool ReserveLinear(const LinearReserve& most) override { return real_->ReserveLinear(most); }
  size_t LinearBytes(const LinearReserve& most, const Matrix& largest) const override {
    return real_->LinearBytes(most, largest);
  }
  void FillRandom(float* to, size_t count, const RandomFill& fill) override {
    real_->FillRandom(to, count, fill);
  }
  bool PackRandom(void* to, const Matrix& shape, const RandomFill& fill) override {
    return real_->PackRandom(to, shape, fill);
  }
  void Embed(const EmbedArgs& args) override { real_->Embed(args); }
  void TimeMixIn(const TimeMixInArgs& args) override { real_->TimeMixIn(args); }
  void TimeMixCore(const TimeMixCoreArgs& args) override { real_->TimeMixCore(args); }
  void TimeMixOut(const TimeMixOutArgs& args) override { real_->TimeMixOut(args); }
  void ChannelMixKey(const ChannelMixKeyArgs& args) override { real_->ChannelMixKey(args); }
  void ChannelMixValue(const ChannelMixValueArgs& args) override { real_->ChannelMixValue(args); }
  void Replay(const ReplayArgs& args) override { real_->Replay(args); }
  void Head(const HeadArgs& args) override { real_->Head(args); }
  void Linear(const LinearArgs& args) override { real_->Linear(args); }
  void Accept(const AcceptArgs& args) override { real_->Accept(args); }
  void DraftFuse(const DraftFuseArgs& args) override { real_->DraftFuse(args); }
  void Attend(const AttendArgs& args) override { real_->Attend(args); }
  void DraftMix(const DraftMixArgs& args) override { real_->DraftMix(args); }
  void DraftHead(const DraftHeadArgs& args) override { real_->DraftHead(args); }
  void DraftTake(const DraftTakeArgs& args) override { real_->DraftTake(args); }
  void DraftPublish(const DraftPublishArgs& args) override { real_->DraftPublish(args); }
  void DraftResolve(const DraftResolveArgs& args) override { real_->DraftResolve(args); }
  void DraftAnswer(const DraftAnswerArgs& args) override { real_->DraftAnswer(args); }

 protected:
  Backend& real() const { return *real_; }

 private:
  std::unique_ptr<Backend> real_;
};

}  // namespace tandem
