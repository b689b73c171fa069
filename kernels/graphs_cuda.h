#pragma once

#include <functional>
#include <list>
#include <map>

#include "kernels/backend.h"

struct CUgraphExec_st;
struct CUstream_st;

namespace tandem {

// Recorded graphs of one stream by key, the most recently used ones. Used with the device's context
// current.
class GraphsCuda final {
 public:
  GraphsCuda(CUstream_st* stream, int most) : stream_(stream), most_(most) {}
  ~GraphsCuda();  // nothing may still run on the stream
  GraphsCuda(const GraphsCuda&) = delete;
  GraphsCuda& operator=(const GraphsCuda&) = delete;

  // As Backend::RunRecorded. The first use runs the work as it is, which loads its kernels, and
  // then records it.
  void Run(const GraphKey& key, const std::function<void()>& enqueue);

  bool recording() const { return recording_; }
  const GraphCounts& counts() const { return counts_; }

 private:
  struct Graph {
    GraphKey key;
    CUgraphExec_st* exec;
  };
  CUgraphExec_st* Record(const std::function<void()>& enqueue);
  void DropOldest();

  CUstream_st* stream_;
  int most_;
  bool recording_ = false;
  std::list<Graph> graphs_;  // last used first
  std::map<GraphKey, std::list<Graph>::iterator> by_key_;
  GraphCounts counts_;
};

}  // namespace tandem
