#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"
#include "tests/bench/live_inputs.h"
#include "tests/forwarding_backend.h"

namespace tandem {

// A backend that measures ops. kTime puts a clock around every op and waits for it, kLive counts
// the inputs of ffn.value; nothing is recorded then. kOne enqueues one op alone, several times over
// and recorded, so that the caller can find its time in the time of the whole.
class TimedBackend final : public ForwardingBackend {
 public:
  enum class Measure { kNothing, kTime, kLive, kOne };

  explicit TimedBackend(std::unique_ptr<Backend> inner, Measure measure = Measure::kTime)
      : ForwardingBackend(std::move(inner)), measure_(measure) {}

  void set_measure(Measure measure) { measure_ = measure; }
  // From now on only `op` runs, `repeats` times for each time it would: what is recorded together
  // runs in its order, over and over. Other calls may have had other repeats; `id` tells ops apart.
  void MeasureOne(std::string op, int id, int repeats) {
    measure_ = Measure::kOne;
    only_ = std::move(op);
    id_ = id;
    repeats_ = repeats;
  }
  // What Measure::kLive has counted.
  LiveInputs Live() { return std::exchange(live_, {}); }

  // Milliseconds per op since the last call.
  std::map<std::string, double> Totals() { return std::exchange(totals_, {}); }

  void RunRecorded(const GraphKey& key, const std::function<void()>& enqueue) override {
    if (measure_ == Measure::kNothing) return real().RunRecorded(key, enqueue);
    if (measure_ != Measure::kOne) return enqueue();
    GraphKey own = key;
    // Above every count that keys hold there.
    own.values[2] |= static_cast<uint64_t>(id_) << 48 | static_cast<uint64_t>(repeats_) << 32;
    real().RunRecorded(own, [&] {
      const int repeats = std::exchange(repeats_, 1);
      for (int i = 0; i < repeats; ++i) enqueue();
      repeats_ = repeats;
    });
  }

  void Embed(const EmbedArgs& args) override {
    Timed("Embed", [&] { real().Embed(args); });
  }
  void TimeMixIn(const TimeMixInArgs& args) override {
    Timed("TimeMixIn", [&] { real().TimeMixIn(args); });
  }
  void TimeMixCore(const TimeMixCoreArgs& args) override {
    Timed("TimeMixCore", [&] { real().TimeMixCore(args); });
  }
  void TimeMixOut(const TimeMixOutArgs& args) override {
    Timed("TimeMixOut", [&] { real().TimeMixOut(args); });
  }
  void ChannelMixKey(const ChannelMixKeyArgs& args) override {
    Timed("ChannelMixKey", [&] { real().ChannelMixKey(args); });
  }
  void ChannelMixValue(const ChannelMixValueArgs& args) override {
    Timed("ChannelMixValue", [&] { real().ChannelMixValue(args); });
    if (measure_ == Measure::kLive) live_.Add(CountLive(real(), args));
  }
  void Replay(const ReplayArgs& args) override {
    Timed("Replay", [&] { real().Replay(args); });
  }
  void Head(const HeadArgs& args) override {
    Timed("Head", [&] { real().Head(args); });
  }
  void Linear(const LinearArgs& args) override {
    Timed("Linear", [&] { real().Linear(args); });
  }
  void Accept(const AcceptArgs& args) override {
    Timed("Accept", [&] { real().Accept(args); });
  }
  void DraftFuse(const DraftFuseArgs& args) override {
    Timed("DraftFuse", [&] { real().DraftFuse(args); });
  }
  void Attend(const AttendArgs& args) override {
    Timed("Attend", [&] { real().Attend(args); });
  }
  void DraftMix(const DraftMixArgs& args) override {
    Timed("DraftMix", [&] { real().DraftMix(args); });
  }
  void DraftHead(const DraftHeadArgs& args) override {
    Timed("DraftHead", [&] { real().DraftHead(args); });
  }

 private:
  template <class Op>
  void Timed(const char* name, const Op& op) {
    if (measure_ == Measure::kOne) {
      if (only_ != name) return;
      for (int i = 0; i < repeats_; ++i) op();
      return;
    }
    if (measure_ != Measure::kTime) return op();
    const auto start = std::chrono::steady_clock::now();
    op();
    real().Wait();
    const auto end = std::chrono::steady_clock::now();
    totals_[name] += std::chrono::duration<double, std::milli>(end - start).count();
  }

  Measure measure_;
  std::string only_;  // with kOne, as below
  int id_ = 0;
  int repeats_ = 1;
  LiveInputs live_;
  std::map<std::string, double> totals_;
};

}  // namespace tandem
