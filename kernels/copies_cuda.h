#pragma once

#include <cstddef>
#include <vector>

struct CUevent_st;
struct CUstream_st;

namespace tandem {

// Copies between pageable host memory and the device that do not stop the host: they go through
// pinned memory, which is also what the device reaches at full speed. Used with the device's
// context current.
class CopiesCuda final {
 public:
  explicit CopiesCuda(CUstream_st* stream);
  ~CopiesCuda();  // nothing may still run on the stream
  CopiesCuda(const CopiesCuda&) = delete;
  CopiesCuda& operator=(const CopiesCuda&) = delete;

  // `from` is free for reuse on return. Waits only where more than the pinned memory is on its way.
  void In(void* to, const void* from, size_t bytes);
  // `to` is written by the end of the next Finish. More than fits finishes what came before.
  void Out(void* to, const void* from, size_t bytes);
  // Waits for the stream and delivers what Out has promised.
  void Finish();

 private:
  // A part of the pinned memory for copies to the device, reused when its event has come.
  struct Segment {
    char* memory = nullptr;
    CUevent_st* free = nullptr;
  };
  struct Pending {
    void* to;
    const char* from;  // pinned
    size_t bytes;
  };
  void NextSegment();

  CUstream_st* stream_;
  char* pinned_in_ = nullptr;
  char* pinned_out_ = nullptr;
  std::vector<Segment> segments_;
  size_t current_ = 0;  // segment in use
  size_t used_ = 0;     // bytes of it
  std::vector<Pending> pending_;
  size_t pending_bytes_ = 0;  // of pinned_out_
};

}  // namespace tandem
