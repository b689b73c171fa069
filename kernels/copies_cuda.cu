#include <algorithm>
#include <cstring>

#include "kernels/copies_cuda.h"
#include "kernels/launch_cuda.cuh"

namespace tandem {
namespace {

constexpr size_t kSegmentBytes = size_t{4} << 20;
constexpr size_t kSegments = 4;
constexpr size_t kOutBytes = size_t{8} << 20;
constexpr size_t kAlignment = 64;

size_t Align(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

CopiesCuda::CopiesCuda(CUstream_st* stream) : stream_(stream) {
  CUDA_CHECK(cudaMallocHost(&pinned_in_, kSegments * kSegmentBytes));
  CUDA_CHECK(cudaMallocHost(&pinned_out_, kOutBytes));
  segments_.resize(kSegments);
  for (size_t i = 0; i < kSegments; ++i) {
    segments_[i].memory = pinned_in_ + i * kSegmentBytes;
    CUDA_CHECK(cudaEventCreateWithFlags(&segments_[i].free, cudaEventDisableTiming));
  }
}

CopiesCuda::~CopiesCuda() {
  // After a device fault these fail, and there is nothing left to give back.
  for (const Segment& segment : segments_) (void)cudaEventDestroy(segment.free);
  (void)cudaFreeHost(pinned_in_);
  (void)cudaFreeHost(pinned_out_);
}

void CopiesCuda::NextSegment() {
  CUDA_CHECK(cudaEventRecord(segments_[current_].free, stream_));
  current_ = (current_ + 1) % kSegments;
  used_ = 0;
  CUDA_CHECK(cudaEventSynchronize(segments_[current_].free));
}

void CopiesCuda::In(void* to, const void* from, size_t bytes) {
  char* target = static_cast<char*>(to);
  const char* source = static_cast<const char*>(from);
  while (bytes > 0) {
    if (used_ == kSegmentBytes) NextSegment();
    const size_t part = std::min(bytes, kSegmentBytes - used_);
    char* const pinned = segments_[current_].memory + used_;
    std::memcpy(pinned, source, part);
    CUDA_CHECK(cudaMemcpyAsync(target, pinned, part, cudaMemcpyHostToDevice, stream_));
    used_ = std::min(kSegmentBytes, Align(used_ + part));
    target += part;
    source += part;
    bytes -= part;
  }
}

void CopiesCuda::Out(void* to, const void* from, size_t bytes) {
  char* target = static_cast<char*>(to);
  const char* source = static_cast<const char*>(from);
  while (bytes > 0) {
    if (pending_bytes_ == kOutBytes) Finish();
    const size_t part = std::min(bytes, kOutBytes - pending_bytes_);
    char* const pinned = pinned_out_ + pending_bytes_;
    CUDA_CHECK(cudaMemcpyAsync(pinned, source, part, cudaMemcpyDeviceToHost, stream_));
    pending_.push_back({.to = target, .from = pinned, .bytes = part});
    pending_bytes_ = std::min(kOutBytes, Align(pending_bytes_ + part));
    target += part;
    source += part;
    bytes -= part;
  }
}

void CopiesCuda::Finish() {
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  for (const Pending& copy : pending_) std::memcpy(copy.to, copy.from, copy.bytes);
  pending_.clear();
  pending_bytes_ = 0;
}

}  // namespace tandem
