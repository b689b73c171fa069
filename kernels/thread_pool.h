#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

// Fork and join over a fixed set of threads, the caller included. Idle workers spin for some tens
// of microseconds and then sleep, so that a second process on the same cores is not starved. One
// thread calls ParallelFor; no nesting.
class ThreadPool final {
 public:
  // `threads` >= 1, the caller included; 0 = one per core that this process may run on.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(i) once for every i in [0, count), 0 <= count <= 65535, on any thread in any order,
  // and returns when all calls have returned. Work that is done before the call is visible to every
  // body; their work to the caller.
  template <class Body>
  void ParallelFor(int count, const Body& body) {
    Run(count, &Invoke<Body>, &body);
  }

 private:
  using Function = void (*)(const void* context, int index);
  template <class Body>
  static void Invoke(const void* context, int index) {
    (*static_cast<const Body*>(context))(index);
  }
  void Run(int count, Function function, const void* context);
  void Work();
  void RunChunks(uint64_t job);
  uint64_t WaitForJob(uint64_t last);
  void WaitForDone(uint32_t count);
  template <class Ready>
  void Sleep(const Ready& ready);
  void WakeSleepers();

  std::vector<std::thread> workers_;

  // The current job: epoch << 32 | count << 16 | next unclaimed index. Claiming is a
  // compare-and-swap on the whole word, so a worker that comes late can never claim a piece of a
  // later job with an earlier function.
  alignas(64) std::atomic<uint64_t> job_{0};
  std::atomic<Function> function_{nullptr};
  std::atomic<const void*> context_{nullptr};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> done_{0};  // finished indices of the current job
  std::atomic<int> sleepers_{0};               // threads inside wake_.wait
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace tandem
