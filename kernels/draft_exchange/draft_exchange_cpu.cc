#include <algorithm>
#include <atomic>

#include "kernels/clock_cpu.h"
#include "kernels/draft_exchange/draft_exchange.h"

namespace tandem {
namespace {

// The peer may write while this side reads.
template <class T>
T Load(const T& shared) {
  return std::atomic_ref<T>(const_cast<T&>(shared)).load(std::memory_order_relaxed);
}

template <class T>
void Store(T& shared, T value) {
  std::atomic_ref<T>(shared).store(value, std::memory_order_relaxed);
}

template <class Record, class Lane>
bool Echoes(const Record& record, uint64_t epoch, uint64_t step, const Lane& lane) {
  return Load(record.epoch) == epoch && Load(record.step) == step &&
         Load(record.slot) == lane.slot && Load(record.generation) == lane.generation;
}

bool IsToken(int32_t token, int vocab) { return token >= 0 && token < vocab; }

int32_t TakeOne(const DraftTakeArgs& args, const DraftTakeLane& lane) {
  const DraftRecord* record = nullptr;
  if (args.records.size > 0) record = &args.records[static_cast<size_t>(lane.record)];
  const bool ours = record != nullptr && Echoes(*record, args.epoch, args.step, lane);
  const int32_t listed = ours ? Load(record->count) : 0;
  int32_t taken = 0;
  for (int32_t k = 0; k < lane.count; ++k) {
    const int32_t token = k < listed ? Load(record->tokens[k]) : -1;
    const bool came = k == taken && IsToken(token, args.vocab);
    args.tokens[static_cast<size_t>(lane.first_row + k)] = came ? token : 0;
    args.row_tokens[static_cast<size_t>(lane.first_logit + k)] = came ? token : -1;
    taken += came;
  }
  return taken;
}

// Certain positions of the lane and, in `tokens`, what follows its last certain rows; 0 where the
// record does not fit.
int32_t ReadCertain(const DraftResolveArgs& args, const DraftResolveLane& lane, int32_t* tokens) {
  const CertainRecord& record = args.records[static_cast<size_t>(lane.record)];
  if (!Echoes(record, args.epoch, args.step, lane)) return 0;
  if (lane.chooses == 0) return lane.count;
  const int32_t emitted = Load(record.emitted);
  if (emitted < 1 || emitted > lane.drafts + 1) return 0;
  for (int32_t r = 0; r < emitted; ++r) {
    tokens[r] = Load(record.tokens[r]);
    if (!IsToken(tokens[r], args.vocab)) return 0;
  }
  return lane.count + emitted - 1;
}

void ResolveOne(const DraftResolveArgs& args, size_t i) {
  const DraftResolveLane& lane = args.lanes[i];
  int32_t tokens[kMaxDrafts + 1] = {};
  const int32_t fed = ReadCertain(args, lane, tokens);
  args.fed[i] = fed;
  const int32_t certain = std::max(fed, lane.count);
  const auto shift = [&](int64_t position) {
    return args.shifts + (static_cast<size_t>(lane.slot) * 2 + position % 2) * args.width;
  };
  if (lane.chooses != 0) {
    for (int32_t r = lane.count - 1; r < lane.count + lane.drafts; ++r) {
      const bool known = fed > 0 && r < certain;
      args.tokens[static_cast<size_t>(lane.row + r)] = known ? tokens[r - (lane.count - 1)] : 0;
    }
  }
  const int64_t last = lane.position + certain - 1;
  float* const previous = last > 0 ? shift(last - 1) : args.no_z;
  args.query_rows[i] = lane.row + certain - 1;
  args.z[i] = shift(last);
  if (lane.second >= 0) {
    const bool asked = certain > 1;
    args.query_rows[static_cast<size_t>(lane.second)] = asked ? lane.row + certain - 2 : lane.row;
    args.z[static_cast<size_t>(lane.second)] = asked ? previous : args.unused_z + i * args.width;
  }
  if (lane.wanted > 0) args.z_prev[i] = lane.cold != 0 && certain == 1 ? args.no_z : previous;
  for (int k = 2; k <= lane.wanted; ++k) args.draft_positions[k][i] = last + k - 1;
}

void AnswerOne(const DraftAnswerArgs& args, size_t i) {
  const DraftResolveLane& lane = args.lanes[i];
  DraftRecord& record = args.records[static_cast<size_t>(lane.record)];
  const int32_t count = args.fed[i] > 0 ? lane.wanted : 0;
  Store(record.epoch, args.epoch);
  Store(record.step, args.step);
  Store(record.slot, lane.slot);
  Store(record.generation, lane.generation);
  Store(record.count, count);
  for (int32_t k = 0; k < count; ++k)
    Store(record.tokens[k], args.drafts[static_cast<size_t>(k * args.stride) + i]);
}

}  // namespace

void DraftTakeCpu(const DraftTakeArgs& args) {
  for (size_t i = 0; i < args.lanes.size; ++i) args.taken[i] = TakeOne(args, args.lanes[i]);
  args.clock[0] = Load(args.times->published);
  args.clock[1] = Load(args.times->started);
  args.clock[2] = Load(args.times->finished);
  args.clock[3] = ClockCpu();
}

void DraftPublishCpu(const DraftPublishArgs& args) {
  for (size_t i = 0; i < args.lanes.size; ++i) {
    const DraftPublishLane& lane = args.lanes[i];
    CertainRecord& record = args.records[i];
    const size_t from = static_cast<size_t>(lane.pass_lane);
    const int32_t emitted = args.emitted[from];
    Store(record.epoch, args.epoch);
    Store(record.step, args.step);
    Store(record.slot, lane.slot);
    Store(record.generation, lane.generation);
    Store(record.emitted, emitted);
    for (int32_t r = 0; r < emitted; ++r)
      Store(record.tokens[r], args.tokens[from * (kMaxDrafts + 1) + static_cast<size_t>(r)]);
  }
  Store(args.times->published, ClockCpu());
}

void DraftResolveCpu(const DraftResolveArgs& args) {
  if (args.times != nullptr) Store(args.times->started, ClockCpu());
  for (size_t i = 0; i < args.lanes.size; ++i) ResolveOne(args, i);
}

void DraftAnswerCpu(const DraftAnswerArgs& args) {
  for (size_t i = 0; i < args.lanes.size; ++i) AnswerOne(args, i);
  if (args.times != nullptr) Store(args.times->finished, ClockCpu());
}

}  // namespace tandem
