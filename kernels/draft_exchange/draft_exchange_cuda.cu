#include "kernels/draft_exchange/draft_exchange_cuda.h"
#include "kernels/launch_cuda.cuh"

namespace tandem {
namespace {

// A thread per lane: there are few, and what counts is the latency of one small launch.
constexpr int kThreads = 64;

__device__ uint64_t Now() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

// The peer may write while this side reads: exactly one load, from memory.
template <class T>
__device__ T Load(const T& shared) {
  return *const_cast<const volatile T*>(&shared);
}

template <class Record, class Lane>
__device__ bool Echoes(const Record& record, uint64_t epoch, uint64_t step, const Lane& lane) {
  return Load(record.epoch) == epoch && Load(record.step) == step &&
         Load(record.slot) == lane.slot && Load(record.generation) == lane.generation;
}

__device__ bool IsToken(int32_t token, int vocab) { return token >= 0 && token < vocab; }

__device__ int ThreadIndex() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__device__ int32_t TakeOne(const DraftTakeArgs& args, const DraftTakeLane& lane) {
  const DraftRecord* const record = args.records.data + lane.record;
  const bool ours = args.records.size > 0 && Echoes(*record, args.epoch, args.step, lane);
  const int32_t listed = ours ? Load(record->count) : 0;
  int32_t taken = 0;
  for (int32_t k = 0; k < lane.count; ++k) {
    const int32_t token = k < listed ? Load(record->tokens[k]) : -1;
    const bool came = k == taken && IsToken(token, args.vocab);
    args.tokens.data[lane.first_row + k] = came ? token : 0;
    args.row_tokens.data[lane.first_logit + k] = came ? token : -1;
    taken += came;
  }
  return taken;
}

__global__ void __launch_bounds__(kThreads) TakeKernel(const DraftTakeArgs args) {
  const int i = ThreadIndex();
  if (i == 0) {
    args.clock.data[0] = Load(args.times->published);
    args.clock.data[1] = Load(args.times->started);
    args.clock.data[2] = Load(args.times->finished);
    args.clock.data[3] = Now();
  }
  if (i < static_cast<int>(args.lanes.size)) args.taken.data[i] = TakeOne(args, args.lanes.data[i]);
}

__global__ void __launch_bounds__(kThreads) PublishKernel(const DraftPublishArgs args) {
  const int i = ThreadIndex();
  if (i == 0) args.times->published = Now();
  if (i >= static_cast<int>(args.lanes.size)) return;
  const DraftPublishLane lane = args.lanes.data[i];
  CertainRecord& record = args.records.data[i];
  const int32_t emitted = args.emitted.data[lane.pass_lane];
  record.epoch = args.epoch;
  record.step = args.step;
  record.slot = lane.slot;
  record.generation = lane.generation;
  record.emitted = emitted;
  const int32_t* const tokens = args.tokens.data + lane.pass_lane * (kMaxDrafts + 1);
  for (int32_t r = 0; r < emitted; ++r) record.tokens[r] = tokens[r];
}

// Writes what follows the lane's last certain row and returns how many positions are certain, 0
// where the record does not fit.
__device__ int32_t ReadCertain(const DraftResolveArgs& args, const DraftResolveLane& lane) {
  const CertainRecord& record = args.records.data[lane.record];
  const bool ours = Echoes(record, args.epoch, args.step, lane);
  if (lane.chooses == 0) return ours ? lane.count : 0;
  const int32_t emitted = ours ? Load(record.emitted) : 0;
  const bool possible = emitted >= 1 && emitted <= lane.drafts + 1;
  bool fits = possible;
  int32_t* const tokens = args.tokens.data + lane.row + lane.count - 1;
  for (int32_t r = 0; r <= lane.drafts; ++r) {
    const int32_t token = possible && r < emitted ? Load(record.tokens[r]) : 0;
    const bool valid = IsToken(token, args.vocab);
    fits = fits && valid;
    tokens[r] = valid ? token : 0;
  }
  for (int32_t r = 0; r <= lane.drafts && !fits; ++r) tokens[r] = 0;
  return fits ? lane.count + emitted - 1 : 0;
}

__device__ float* Shift(const DraftResolveArgs& args, int32_t slot, int64_t position) {
  return args.shifts + (static_cast<size_t>(slot) * 2 + position % 2) * args.width;
}

__device__ void ResolveOne(const DraftResolveArgs& args, int i, const DraftResolveLane& lane) {
  const int32_t fed = ReadCertain(args, lane);
  args.fed.data[i] = fed;
  const int32_t certain = max(fed, lane.count);
  const int64_t last = lane.position + certain - 1;
  float* const previous = last > 0 ? Shift(args, lane.slot, last - 1) : args.no_z;
  args.query_rows.data[i] = lane.row + certain - 1;
  args.z.data[i] = Shift(args, lane.slot, last);
  if (lane.second >= 0) {
    const bool asked = certain > 1;
    args.query_rows.data[lane.second] = asked ? lane.row + certain - 2 : lane.row;
    args.z.data[lane.second] =
        asked ? previous : args.unused_z + static_cast<size_t>(i) * args.width;
  }
  if (lane.wanted > 0) args.z_prev.data[i] = lane.cold != 0 && certain == 1 ? args.no_z : previous;
#pragma unroll
  for (int k = 2; k <= kMaxDrafts; ++k) {
    if (k <= lane.wanted) args.draft_positions[k].data[i] = last + k - 1;
  }
}

__global__ void __launch_bounds__(kThreads) ResolveKernel(const DraftResolveArgs args) {
  const int i = ThreadIndex();
  if (i == 0 && args.times != nullptr) args.times->started = Now();
  if (i < static_cast<int>(args.lanes.size)) ResolveOne(args, i, args.lanes.data[i]);
}

__global__ void __launch_bounds__(kThreads) AnswerKernel(const DraftAnswerArgs args) {
  const int i = ThreadIndex();
  if (i < static_cast<int>(args.lanes.size)) {
    const DraftResolveLane lane = args.lanes.data[i];
    DraftRecord& record = args.records.data[lane.record];
    const int32_t count = args.fed.data[i] > 0 ? lane.wanted : 0;
    record.epoch = args.epoch;
    record.step = args.step;
    record.slot = lane.slot;
    record.generation = lane.generation;
    record.count = count;
    for (int32_t k = 0; k < count; ++k) record.tokens[k] = args.drafts.data[k * args.stride + i];
  }
  if (i == 0 && args.times != nullptr) args.times->finished = Now();
}

__global__ void StampKernel(uint64_t* to) { *to = Now(); }

template <class Args>
void LaunchLanes(void (*kernel)(Args), const Args& args, const DeviceCuda& device) {
  const int blocks = CeilDiv(static_cast<int>(args.lanes.size), kThreads);
  Launch(device, kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, args);
}

}  // namespace

void StampCuda(uint64_t* to, const DeviceCuda& device) {
  Launch(device, StampKernel, dim3(1), dim3(1), 0, to);
}

void DraftTakeCuda(const DraftTakeArgs& args, const DeviceCuda& device) {
  LaunchLanes(TakeKernel, args, device);
}

void DraftPublishCuda(const DraftPublishArgs& args, const DeviceCuda& device) {
  LaunchLanes(PublishKernel, args, device);
}

void DraftResolveCuda(const DraftResolveArgs& args, const DeviceCuda& device) {
  LaunchLanes(ResolveKernel, args, device);
}

void DraftAnswerCuda(const DraftAnswerArgs& args, const DeviceCuda& device) {
  LaunchLanes(AnswerKernel, args, device);
}

}  // namespace tandem
