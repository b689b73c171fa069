#include "kernels/graphs_cuda.h"
#include "kernels/launch_cuda.cuh"

namespace tandem {

GraphsCuda::~GraphsCuda() {
  for (const Graph& graph : graphs_) (void)cudaGraphExecDestroy(graph.exec);
}

void GraphsCuda::Run(const GraphKey& key, const std::function<void()>& enqueue) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    graphs_.splice(graphs_.begin(), graphs_, found->second);
    CUDA_CHECK(cudaGraphLaunch(found->second->exec, stream_));
    ++counts_.replayed;
    return;
  }
  enqueue();
  if (static_cast<int>(graphs_.size()) >= most_) DropOldest();
  graphs_.push_front({.key = key, .exec = Record(enqueue)});
  by_key_[key] = graphs_.begin();
  ++counts_.recorded;
  counts_.kept = static_cast<int>(graphs_.size());
}

CUgraphExec_st* GraphsCuda::Record(const std::function<void()>& enqueue) {
  recording_ = true;
  CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  enqueue();
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
  recording_ = false;
  cudaGraphExec_t exec = nullptr;
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_CHECK(cudaGraphDestroy(graph));
  CUDA_CHECK(cudaGraphUpload(exec, stream_));
  return exec;
}

void GraphsCuda::DropOldest() {
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  by_key_.erase(graphs_.back().key);
  CUDA_CHECK(cudaGraphExecDestroy(graphs_.back().exec));
  graphs_.pop_back();
}

}  // namespace tandem
