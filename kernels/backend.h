#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/view.h"

namespace tandem {

struct AcceptArgs;
struct AttendArgs;
struct ChannelMixKeyArgs;
struct ChannelMixValueArgs;
struct DraftFuseArgs;
struct DraftHeadArgs;
struct DraftMixArgs;
struct EmbedArgs;
struct HeadArgs;
struct LinearArgs;
struct Matrix;
struct ReplayArgs;
struct TimeMixCoreArgs;
struct TimeMixInArgs;
struct TimeMixOutArgs;

// Memory that another process can map: a file descriptor on the CPU, an IPC handle on a GPU.
struct ExportHandle {
  int fd = -1;           // CPU: sealed memfd, owned by the Backend that made it
  uint8_t ipc[64] = {};  // GPU: driver handle
  size_t bytes = 0;
};

// Memory, order and ops of one device. Ops are enqueued in program order and see each other's
// results; Wait returns when all of them have finished. Everything is allocated before serving
// starts and addresses never move. Not thread-safe: one thread uses a Backend.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;  // "cpu", "cuda"
  virtual int threads() const = 0;

  // Zeroed, 64-byte aligned; null when there is not enough memory. Freed with the Backend.
  virtual void* Allocate(size_t bytes) = 0;
  // As Allocate, and fills `handle` so that another process can map the memory with Import.
  virtual void* AllocateExported(size_t bytes, ExportHandle* handle) = 0;
  // After this, later imports of the handle can only read. The exporter's own mapping stays
  // writable.
  virtual bool SealForReaders(const ExportHandle& handle) = 0;
  // Maps exported memory of another process until the Backend ends or Unimport; null on failure
  // (wrong size, bad handle).
  virtual void* Import(const ExportHandle& handle, bool writable) = 0;
  virtual void Unimport(void* memory) = 0;

  // `to` or `from` in device memory, the other end on the host. Ordered after the ops enqueued
  // before; the host side is free for reuse on return.
  virtual void CopyIn(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyOut(void* to, const void* from, size_t bytes) = 0;
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;  // both in device memory
  virtual void Zero(void* to, size_t bytes) = 0;
  virtual void Wait() = 0;

  // Weights: bytes of a matrix as `shape` says (its data is not looked at), and the packing of a
  // host matrix [rows, cols] of bf16 into backend memory of that size (64-byte aligned), which
  // rounds it to the format. The result is `shape` with data = to.
  virtual size_t PackedBytes(const Matrix& shape) const = 0;
  virtual void Pack(void* to, const Matrix& shape, const uint16_t* bf16) = 0;

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
};

// `threads` >= 1 workers, the calling thread included; 0 = one per available core.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace tandem
