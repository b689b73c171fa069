#pragma once

#include <cstdint>
#include <mutex>

struct CUstream_st;

namespace tandem {

// Stream words of the CUDA backend: waits and writes of a stream's own queue. The contracts are
// those of Backend. Used with the device's context current.
class WordsCuda final {
 public:
  explicit WordsCuda(CUstream_st* stream);
  ~WordsCuda();  // nothing may still run on the stream
  WordsCuda(const WordsCuda&) = delete;
  WordsCuda& operator=(const WordsCuda&) = delete;

  bool supported() const { return supported_; }
  void Wait(uint32_t* word, uint32_t value);
  void Write(uint32_t* word, uint32_t value);
  bool Release();

 private:
  CUstream_st* const stream_;
  CUstream_st* rescue_ = nullptr;  // runs nothing but releases
  // Pinned: how many waits of the stream are over.
  uint32_t* passed_ = nullptr;
  bool supported_ = false;

  std::mutex mutex_;
  uint32_t waits_ = 0;
  uint32_t* word_ = nullptr;  // of the last wait
  uint32_t value_ = 0;
};

}  // namespace tandem
