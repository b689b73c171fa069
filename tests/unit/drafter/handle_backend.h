#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace tandem {

// The CPU's backend under the name of a GPU's, exporting memory as a GPU does: by 64 bytes that
// another process, or this one, maps it with, and without a descriptor.
class HandleBackend final : public Backend {
 public:
  const char* name() const override { return "cuda"; }
  int threads() const override { return real_->threads(); }
  void* Allocate(size_t bytes) override { return real_->Allocate(bytes); }
  void* AllocateExported(size_t bytes, ExportHandle* handle) override {
    ExportHandle exported;
    void* memory = real_->AllocateExported(bytes, &exported);
    const Origin origin = {.pid = getpid(), .fd = exported.fd};
    *handle = {.bytes = bytes};
    std::memcpy(handle->ipc, &origin, sizeof(origin));
    return memory;
  }
  bool SealForReaders(const ExportHandle& handle) override { return handle.bytes > 0; }
  void* Import(const ExportHandle& handle, bool writable) override {
    Origin origin;
    std::memcpy(&origin, handle.ipc, sizeof(origin));
    const std::string path =
        "/proc/" + std::to_string(origin.pid) + "/fd/" + std::to_string(origin.fd);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* memory = real_->Import({.fd = fd, .bytes = handle.bytes}, writable);
    close(fd);
    return memory;
  }
  void Unimport(void* memory) override { real_->Unimport(memory); }
  void CopyIn(void* to, const void* from, size_t n) override { real_->CopyIn(to, from, n); }
  void CopyOut(void* to, const void* from, size_t n) override { real_->CopyOut(to, from, n); }
  void Copy(void* to, const void* from, size_t n) override { real_->Copy(to, from, n); }
  void Zero(void* to, size_t bytes) override { real_->Zero(to, bytes); }
  void Wait() override { real_->Wait(); }
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
  void DraftHead(const DraftHeadArgs& args) override { real_->DraftHead(args); }

 private:
  struct Origin {
    pid_t pid = 0;
    int fd = -1;
  };
  std::unique_ptr<Backend> real_ = MakeCpuBackend(1);
};

}  // namespace tandem
