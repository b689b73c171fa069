#include "kernels/thread_pool.h"

#include <sched.h>

#include <chrono>

#include "hwy/cache_control.h"

namespace tandem {
namespace {

// How long an idle thread burns its core before it sleeps: longer than the gaps between the ops of
// a pass, far shorter than a step.
constexpr std::chrono::microseconds kSpin{30};
constexpr int kPausesPerClock = 16;

constexpr uint64_t Epoch(uint64_t job) { return job >> 32; }
constexpr uint32_t Count(uint64_t job) { return (job >> 16) & 0xffff; }
constexpr uint32_t Next(uint64_t job) { return job & 0xffff; }

int AvailableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return 1;
}

// Spins until ready() or the time is over; returns ready().
template <class Ready>
bool SpinUntil(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClock; ++i) {
      if (ready()) return true;
      hwy::Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const int total = threads >= 1 ? threads : AvailableCores();
  for (int i = 1; i < total; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int count, Function function, const void* context) {
  if (count <= 0) return;
  if (workers_.empty() || count == 1) {
    for (int i = 0; i < count; ++i) function(context, i);
    return;
  }
  done_.store(0, std::memory_order_relaxed);
  function_.store(function, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  const uint64_t epoch = Epoch(job_.load(std::memory_order_relaxed)) + 1;
  const uint64_t job = epoch << 32 | static_cast<uint64_t>(count) << 16;
  job_.store(job);
  WakeSleepers();
  RunChunks(job);
  WaitForDone(static_cast<uint32_t>(count));
}

void ThreadPool::RunChunks(uint64_t job) {
  const uint64_t epoch = Epoch(job);
  uint64_t word = job_.load();
  while (Epoch(word) == epoch && Next(word) < Count(word)) {
    const Function function = function_.load(std::memory_order_relaxed);
    const void* context = context_.load(std::memory_order_relaxed);
    if (!job_.compare_exchange_weak(word, word + 1)) continue;
    function(context, static_cast<int>(Next(word)));
    if (done_.fetch_add(1) + 1 == Count(word)) WakeSleepers();
    word = job_.load();
  }
}

void ThreadPool::Work() {
  uint64_t last = 0;
  while (true) {
    const uint64_t job = WaitForJob(last);
    if (stop_.load()) return;
    RunChunks(job);
    last = Epoch(job);
  }
}

uint64_t ThreadPool::WaitForJob(uint64_t last) {
  const auto ready = [&] { return Epoch(job_.load()) != last || stop_.load(); };
  if (!SpinUntil(ready)) Sleep(ready);
  return job_.load();
}

void ThreadPool::WaitForDone(uint32_t count) {
  const auto ready = [&] { return done_.load() == count; };
  if (!SpinUntil(ready)) Sleep(ready);
}

template <class Ready>
void ThreadPool::Sleep(const Ready& ready) {
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.fetch_add(1);
  wake_.wait(lock, ready);
  sleepers_.fetch_sub(1);
}

// A thread counts itself as a sleeper before it looks a last time, and the waker looks for sleepers
// after it has changed what they wait for; so one of the two sees the other.
void ThreadPool::WakeSleepers() {
  if (sleepers_.load() == 0) return;
  { std::lock_guard<std::mutex> lock(mutex_); }
  wake_.notify_all();
}

}  // namespace tandem
