#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/draft_head/draft_head.h"
#include "kernels/linear/linear.h"

namespace tandem {

// A backend that remembers the draft logits of every DraftHead call, with as much memory as the
// test allows.
class RecordingBackend final : public Backend {
 public:
  explicit RecordingBackend(std::unique_ptr<Backend> real) : real_(std::move(real)) {}

  // [calls][rows · V] by token id, V as far as the draft vocabulary reaches
  std::vector<std::vector<float>> draft_logits;
  // False: nothing is remembered, and RunRecorded works as it does in the real backend.
  bool remember = true;
  size_t allocation_limit = SIZE_MAX;  // bytes of one allocation

  const char* name() const override { return real_->name(); }
  int threads() const override { return real_->threads(); }
  void* Allocate(size_t bytes) override {
    return bytes > allocation_limit ? nullptr : real_->Allocate(bytes);
  }
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
  void RunRecorded(const GraphKey& key, const std::function<void()>& enqueue) override {
    if (remember) return enqueue();
    real_->RunRecorded(key, enqueue);
  }
  GraphCounts graph_counts() const override { return real_->graph_counts(); }
  size_t PackedBytes(const Matrix& shape) const override { return real_->PackedBytes(shape); }
  void Pack(void* to, const Matrix& shape, const uint16_t* bf16) override {
    real_->Pack(to, shape, bf16);
  }
  void FillRandom(float* to, size_t count, const RandomFill& fill) override {
    real_->FillRandom(to, count, fill);
  }
  void PackRandom(void* to, const Matrix& shape, const RandomFill& fill) override {
    real_->PackRandom(to, shape, fill);
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
  void DraftHead(const DraftHeadArgs& args) override {
    real_->DraftHead(args);
    if (remember) Remember(args);
  }

 private:
  void Remember(const DraftHeadArgs& args) {
    const size_t head_rows = static_cast<size_t>(args.head.rows);
    std::vector<int32_t> ids(args.draft_vocab.size), rows(args.head_rows.size);
    std::vector<float> by_row(static_cast<size_t>(args.rows) * head_rows);
    CopyOut(ids.data(), args.draft_vocab.data, ids.size() * sizeof(int32_t));
    CopyOut(rows.data(), args.head_rows.data, rows.size() * sizeof(int32_t));
    CopyOut(by_row.data(), args.logits.data, by_row.size() * sizeof(float));
    Wait();
    const size_t vocab = static_cast<size_t>(*std::max_element(ids.begin(), ids.end())) + 1;
    std::vector<float> logits(static_cast<size_t>(args.rows) * vocab);
    for (size_t row = 0; row < static_cast<size_t>(args.rows); ++row) {
      for (size_t i = 0; i < ids.size(); ++i)
        logits[row * vocab + ids[i]] = by_row[row * head_rows + rows[i]];
    }
    draft_logits.push_back(std::move(logits));
  }

  std::unique_ptr<Backend> real_;
};

}  // namespace tandem
