#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/grid_values.h"
#include "tests/gpu/on_device.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {

inline constexpr int kRigSlots = 7;
inline constexpr int kRigTokens = 64;     // different inputs of rows
inline constexpr int kRigMostRows = 112;  // of a pass
inline constexpr int kRigMostLanes = 8;

// The state of all slots.
struct RigState {
  std::vector<float> committed;  // [kRigSlots, committed_stride]
  std::vector<float> log;        // [kRigSlots, log_stride], NaN where nothing was written
};

// A state op of one layer on some backend. A token is a number below kRigTokens: the same number
// has the same inputs. Rigs of the same seed and width are equal on all backends.
class StateRig {
 public:
  StateRig(Backend& backend, int width, size_t committed_stride, size_t log_stride, uint32_t seed)
      : backend_(backend),
        width_(width),
        committed_stride_(committed_stride),
        log_stride_(log_stride),
        random_(seed),
        committed_(memory_.In(random_.Vector(kRigSlots * committed_stride, -1, 1))),
        log_(memory_.Out<float>(kRigSlots * log_stride)) {}
  virtual ~StateRig() = default;

  // What the op leaves of the rows: [T, output_width()].
  std::vector<float> Run(const TestLanes& lanes, const std::vector<int>& tokens) {
    EXPECT_EQ(static_cast<int>(tokens.size()), lanes.rows());
    EXPECT_LE(lanes.rows(), kRigMostRows);
    Put(offsets_, lanes.offsets);
    Put(slots_, lanes.slots);
    Put(provisional_, lanes.provisional);
    Put(accepted_, lanes.accepted);
    return RunRows({.count = static_cast<int>(lanes.slots.size()),
                    .offsets = offsets_.data,
                    .slots = slots_.data,
                    .provisional = provisional_.data,
                    .accepted = accepted_.data},
                   tokens);
  }
  // The Replay op on these slots.
  virtual void Replay(const std::vector<int32_t>& slots, const std::vector<int32_t>& accepted) = 0;
  virtual int output_width() const = 0;
  // Relative and absolute error allowed for an output column against another backend.
  virtual float Tolerance(int column) const = 0;

  RigState State() { return {memory_.Read(committed_), memory_.Read(log_)}; }
  void SetState(const RigState& state) {
    Put(committed_, state.committed);
    Put(log_, state.log);
  }
  // One slot's part of a state.
  std::vector<float> CommittedOf(const RigState& state, int slot) const {
    return Part(state.committed, static_cast<size_t>(slot) * committed_stride_, committed_stride_);
  }
  std::vector<float> LogOf(const RigState& state, int slot) const {
    return Part(state.log, static_cast<size_t>(slot) * log_stride_, log_stride_);
  }

 protected:
  virtual std::vector<float> RunRows(const Lanes& lanes, const std::vector<int>& tokens) = 0;

  template <class T>
  void Put(const View<T>& to, const std::vector<T>& values) {
    ASSERT_LE(values.size(), to.size);
    backend_.CopyIn(to.data, values.data(), values.size() * sizeof(T));
  }
  // A buffer's first `size` values, NaN again.
  View<float> Fresh(const View<float>& buffer, size_t size) {
    Put(buffer, Poisoned(size));
    return buffer.Sub(0, size);
  }
  // The inputs of the tokens, of `width` each, out of `table` [kRigTokens, width], in `buffer`.
  View<float> Gather(const std::vector<float>& table, const std::vector<int>& tokens, int width,
                     const View<float>& buffer) {
    std::vector<float> rows;
    for (const int token : tokens) {
      const std::vector<float> row = RowsOf(table, token, 1, width);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    Put(buffer, rows);
    return buffer.Sub(0, rows.size());
  }
  View<float> Buffer(int width) {
    return memory_.Out<float>(static_cast<size_t>(kRigMostRows) * static_cast<size_t>(width));
  }
  // Appends plane [count, width]'s row to each of `rows`.
  void Append(View<float> plane, int width, std::vector<std::vector<float>>* rows) {
    const std::vector<float> values = memory_.Read(plane);
    for (size_t t = 0; t < rows->size(); ++t) {
      const std::vector<float> row = RowsOf(values, static_cast<int>(t), 1, width);
      (*rows)[t].insert((*rows)[t].end(), row.begin(), row.end());
    }
  }
  static std::vector<float> Joined(const std::vector<std::vector<float>>& rows) {
    std::vector<float> all;
    for (const std::vector<float>& row : rows) all.insert(all.end(), row.begin(), row.end());
    return all;
  }
  static std::vector<float> Part(const std::vector<float>& all, size_t first, size_t count) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

  Backend& backend_;
  OnDevice memory_{backend_};
  const int width_;
  const size_t committed_stride_, log_stride_;
  Random random_;
  View<float> committed_, log_;
  View<int32_t> offsets_ = memory_.Out<int32_t>(kRigMostLanes + 1);
  View<int32_t> slots_ = memory_.Out<int32_t>(kRigMostLanes);
  View<int32_t> provisional_ = memory_.Out<int32_t>(kRigMostLanes);
  View<int32_t> accepted_ = memory_.Out<int32_t>(kRigSlots);
};

}  // namespace tandem
