#include <cstring>
#include <vector>

#include "kernels/accept/accept.h"
#include "kernels/attend/attend.h"
#include "kernels/backend.h"
#include "kernels/channel_mix_key/channel_mix_key.h"
#include "kernels/channel_mix_value/channel_mix_value.h"
#include "kernels/clock_cpu.h"
#include "kernels/draft_exchange/draft_exchange.h"
#include "kernels/draft_fuse/draft_fuse.h"
#include "kernels/draft_head/draft_head.h"
#include "kernels/draft_mix/draft_mix.h"
#include "kernels/embed/embed.h"
#include "kernels/head/head.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/memory_cpu.h"
#include "kernels/random/random.h"
#include "kernels/replay/replay.h"
#include "kernels/thread_pool.h"
#include "kernels/time_mix_core/time_mix_core.h"
#include "kernels/time_mix_in/time_mix_in.h"
#include "kernels/time_mix_out/time_mix_out.h"
#include "kernels/words_cpu.h"

namespace tandem {
namespace {

// Runs every op at once on the calling thread and the pool.
class BackendCpu final : public Backend {
 public:
  explicit BackendCpu(int threads) : pool_(threads) {}

  const char* name() const override { return "cpu"; }
  int threads() const override { return pool_.threads(); }

  void* Allocate(size_t bytes) override { return memory_.Allocate(bytes); }
  void* AllocateExported(size_t bytes, ExportHandle* handle) override {
    return memory_.AllocateExported(bytes, handle);
  }
  bool SealForReaders(const ExportHandle& handle) override {
    return MemoryCpu::SealForReaders(handle);
  }
  void* Import(const ExportHandle& handle, bool writable) override {
    return memory_.Import(handle, writable);
  }
  void Unimport(void* memory) override { memory_.Unimport(memory); }

  void CopyIn(void* to, const void* from, size_t bytes) override { Copy(to, from, bytes); }
  void CopyOut(void* to, const void* from, size_t bytes) override { Copy(to, from, bytes); }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Zero(void* to, size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  void Wait() override {}

  bool has_words() const override { return true; }
  void WaitWord(uint32_t* word, uint32_t value) override { words_.Wait(word, value); }
  void WriteWord(uint32_t* word, uint32_t value) override { WordsCpu::Write(word, value); }
  bool ReleaseWait() override { return words_.Release(); }
  void Stamp(uint64_t* to) override { *to = ClockCpu(); }

  size_t PackedBytes(const Matrix& shape) const override {
    return LinearPackedBytes(shape.format, shape.rows, shape.cols);
  }
  bool Pack(void* to, const Matrix& shape, const uint16_t* bf16) override {
    LinearPack(to, shape.format, bf16, shape.rows, shape.cols);
    return true;
  }
  bool PackCodes(void* to, const Matrix& shape, const MatrixCodes& codes) override {
    LinearPackCodes(to, shape.format, codes, shape.rows, shape.cols);
    return true;
  }
  bool ReserveLinear(const LinearReserve&) override { return true; }
  size_t LinearBytes(const LinearReserve&, const Matrix&) const override { return 0; }
  void FillRandom(float* to, size_t count, const RandomFill& fill) override {
    FillRandomCpu(to, count, fill);
  }
  bool PackRandom(void* to, const Matrix& shape, const RandomFill& fill) override {
    std::vector<uint16_t> bf16(static_cast<size_t>(shape.rows) * shape.cols);
    FillRandomBf16Cpu(bf16.data(), bf16.size(), fill);
    return Pack(to, shape, bf16.data());
  }

  void Embed(const EmbedArgs& args) override { EmbedCpu(args, pool_); }
  void TimeMixIn(const TimeMixInArgs& args) override { TimeMixInCpu(args, pool_); }
  void TimeMixCore(const TimeMixCoreArgs& args) override { TimeMixCoreCpu(args, pool_); }
  void TimeMixOut(const TimeMixOutArgs& args) override { TimeMixOutCpu(args, pool_); }
  void ChannelMixKey(const ChannelMixKeyArgs& args) override { ChannelMixKeyCpu(args, pool_); }
  void ChannelMixValue(const ChannelMixValueArgs& args) override {
    ChannelMixValueCpu(args, pool_);
  }
  void Replay(const ReplayArgs& args) override { ReplayCpu(args, pool_); }
  void Head(const HeadArgs& args) override { HeadCpu(args, pool_); }
  void Linear(const LinearArgs& args) override { LinearCpu(args, pool_); }
  void Accept(const AcceptArgs& args) override { AcceptCpu(args, pool_); }
  void DraftFuse(const DraftFuseArgs& args) override { DraftFuseCpu(args, pool_); }
  void Attend(const AttendArgs& args) override { AttendCpu(args, pool_); }
  void DraftMix(const DraftMixArgs& args) override { DraftMixCpu(args, pool_); }
  void DraftHead(const DraftHeadArgs& args) override { DraftHeadCpu(args, pool_); }
  void DraftTake(const DraftTakeArgs& args) override { DraftTakeCpu(args); }
  void DraftPublish(const DraftPublishArgs& args) override { DraftPublishCpu(args); }
  void DraftResolve(const DraftResolveArgs& args) override { DraftResolveCpu(args); }
  void DraftAnswer(const DraftAnswerArgs& args) override { DraftAnswerCpu(args); }

 private:
  ThreadPool pool_;
  MemoryCpu memory_;
  WordsCpu words_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads) {
  return std::make_unique<BackendCpu>(threads);
}

}  // namespace tandem
