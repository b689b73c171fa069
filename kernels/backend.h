#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/export_handle.h"
#include "kernels/graph_key.h"
#include "kernels/view.h"

namespace tandem {

struct AcceptArgs;
struct AttendArgs;
struct ChannelMixKeyArgs;
struct ChannelMixValueArgs;
struct DraftAnswerArgs;
struct DraftFuseArgs;
struct DraftHeadArgs;
struct DraftMixArgs;
struct DraftPublishArgs;
struct DraftResolveArgs;
struct DraftTakeArgs;
struct EmbedArgs;
struct HeadArgs;
struct LinearArgs;
struct LinearReserve;
struct Matrix;
struct MatrixCodes;
struct RandomFill;
struct ReplayArgs;
struct TimeMixCoreArgs;
struct TimeMixInArgs;
struct TimeMixOutArgs;

// Memory, order and ops of one device. Ops are enqueued in program order and see each other's
// results; Wait returns when all of them have finished. Everything is allocated before serving
// starts and addresses never move. Not thread-safe: one thread uses a Backend.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;  // "cpu", "cuda"
  // How many choices the Accept op makes at a time at most: more scratch than that is not used.
  virtual int threads() const = 0;

  // Zeroed, 64-byte aligned; null when there is not enough memory. Freed with the Backend.
  virtual void* Allocate(size_t bytes) = 0;
  // What Allocate can still give in all, as far as the device tells; nothing where it does not.
  virtual std::optional<size_t> FreeBytes() const { return std::nullopt; }
  // As Allocate, and fills `handle` so that another process can map the memory with Import.
  virtual void* AllocateExported(size_t bytes, ExportHandle* handle) = 0;
  // After this, later imports of the handle can only read. The exporter's own mapping stays
  // writable. Handles of a GPU know no access rights, so there a reader is only asked not to write:
  // true all the same.
  virtual bool SealForReaders(const ExportHandle& handle) = 0;
  // Maps exported memory of another process until the Backend ends or Unimport; null on failure
  // (bad handle; wrong size, on a GPU only when larger than what was exported).
  virtual void* Import(const ExportHandle& handle, bool writable) = 0;
  virtual void Unimport(void* memory) = 0;

  // Between the host and device memory, ordered after the ops enqueued before. The source of a
  // CopyIn is free for reuse on return; the target of a CopyOut is written by the end of the next
  // Wait and must live until then.
  virtual void CopyIn(void* to, const void* from, size_t bytes) = 0;   // `from` on the host
  virtual void CopyOut(void* to, const void* from, size_t bytes) = 0;  // `to` on the host
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;     // both in device memory
  virtual void Zero(void* to, size_t bytes) = 0;
  virtual void Wait() = 0;

  // Words: 32-bit counters in exported or imported memory by which the queues of two processes wait
  // for each other. What was enqueued before a WriteWord is visible to whoever sees the value; what
  // is enqueued after a WaitWord runs once int32(*word - value) >= 0. Nobody may call either where
  // there are none. On the CPU a WaitWord blocks its caller.
  virtual bool has_words() const = 0;
  virtual void WaitWord(uint32_t* word, uint32_t value) = 0;
  virtual void WriteWord(uint32_t* word, uint32_t value) = 0;
  // From any thread: writes what the last WaitWord waits for; false where that wait is over.
  virtual bool ReleaseWait() = 0;
  // Writes the time of the device's clock in nanoseconds, as DraftTake and the like do.
  virtual void Stamp(uint64_t* to) = 0;

  // Enqueues what `enqueue` enqueues. For equal keys it must make the same calls with the same
  // arguments, none of them CopyIn, CopyOut, Wait, Pack or an allocation: a backend may call it
  // twice for the first use of a key and not at all for later ones, replaying what it recorded.
  virtual void RunRecorded(const GraphKey& key, const std::function<void()>& enqueue) {
    (void)key;
    enqueue();
  }
  virtual bool records() const { return false; }  // whether RunRecorded does
  virtual GraphCounts graph_counts() const { return {}; }

  // Weights: bytes of a matrix as `shape` says (its data is not looked at), and the packing of a
  // host matrix [rows, cols] into backend memory of that size (64-byte aligned): of bf16, which is
  // rounded to the format, or of codes of the format, which stay as they are. The result is `shape`
  // with data = to. Packing may need memory for a while; false, with nothing written, when there is
  // not enough.
  virtual size_t PackedBytes(const Matrix& shape) const = 0;
  [[nodiscard]] virtual bool Pack(void* to, const Matrix& shape, const uint16_t* bf16) = 0;
  [[nodiscard]] virtual bool PackCodes(void* to, const Matrix& shape, const MatrixCodes& codes) = 0;
  // Allocates what linear ops of the matrices packed so far need beside their arguments; called
  // before such an op is enqueued. False when there is not enough memory.
  virtual bool ReserveLinear(const LinearReserve& most) = 0;
  // Bytes of that for matrices up to the size of `largest`, rounded_inputs being of some of them.
  virtual size_t LinearBytes(const LinearReserve& most, const Matrix& largest) const = 0;
  // Numbers from a seed (kernels/random/random.h): [count] of them, and the packing of a matrix
  // [rows, cols] of them rounded to bf16. No number of either is made on the host of a GPU.
  virtual void FillRandom(float* to, size_t count, const RandomFill& fill) = 0;
  [[nodiscard]] virtual bool PackRandom(void* to, const Matrix& shape, const RandomFill& fill) = 0;

  // Ops; each contract stands in kernels/<op>/<op>.h.
  virtual void Embed(const EmbedArgs& args) = 0;
  virtual void TimeMixIn(const TimeMixInArgs& args) = 0;
  virtual void TimeMixCore(const TimeMixCoreArgs& args) = 0;
  virtual void TimeMixOut(const TimeMixOutArgs& args) = 0;
  virtual void ChannelMixKey(const ChannelMixKeyArgs& args) = 0;
  virtual void ChannelMixValue(const ChannelMixValueArgs& args) = 0;
  virtual void Replay(const ReplayArgs& args) = 0;
  virtual void Head(const HeadArgs& args) = 0;
  virtual void Linear(const LinearArgs& args) = 0;
  virtual void Accept(const AcceptArgs& args) = 0;
  virtual void DraftFuse(const DraftFuseArgs& args) = 0;
  virtual void Attend(const AttendArgs& args) = 0;
  virtual void DraftMix(const DraftMixArgs& args) = 0;
  virtual void DraftHead(const DraftHeadArgs& args) = 0;
  virtual void DraftTake(const DraftTakeArgs& args) = 0;
  virtual void DraftPublish(const DraftPublishArgs& args) = 0;
  virtual void DraftResolve(const DraftResolveArgs& args) = 0;
  virtual void DraftAnswer(const DraftAnswerArgs& args) = 0;
};

// `threads` >= 1 workers, the calling thread included; 0 = one per available core.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace tandem
