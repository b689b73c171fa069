#include "kernels/attend/attend.h"

#include <map>

#include "tests/kernels/sidecar_fixture.h"

namespace tandem {
namespace {

constexpr int kWidth = 64;
constexpr int kWindow = 6;
constexpr int kRing = kWindow + 3;
constexpr int kSlots = 2;

// One row of the op.
struct Entry {
  int slot = 0;
  int64_t position = 0;
  int64_t first = 0;
  bool asks = false;
  std::vector<float> x = {};
};

class AttendTest : public SidecarFixture {
 protected:
  struct Output {
    std::vector<float> x, z;  // [Q, C]
  };

  Output Run(const std::vector<Entry>& entries) {
    std::vector<float> x;
    std::vector<int32_t> slots, queries;
    std::vector<int64_t> positions, first;
    for (const Entry& entry : entries) {
      if (entry.asks) queries.push_back(static_cast<int32_t>(slots.size()));
      x.insert(x.end(), entry.x.begin(), entry.x.end());
      slots.push_back(entry.slot);
      positions.push_back(entry.position);
      first.push_back(entry.first);
    }
    const size_t rows = slots.size();
    Output out{.x = std::vector<float>(queries.size() * kWidth, kPoison),
               .z = std::vector<float>(queries.size() * kWidth, kPoison)};
    std::vector<float*> z;
    for (size_t i = 0; i < queries.size(); ++i) z.push_back(out.z.data() + i * kWidth);
    std::vector<float> scratch(AttendScratch(rows, queries.size(), kWidth, kWindow), kPoison);
    backend_->Attend({.rows = static_cast<int>(rows),
                      .queries = static_cast<int>(queries.size()),
                      .width = kWidth,
                      .ring_size = kRing,
                      .window = kWindow,
                      .x = Of(x),
                      .slots = {slots.data(), rows},
                      .positions = {positions.data(), rows},
                      .first = {first.data(), rows},
                      .query_rows = {queries.data(), queries.size()},
                      .ln1_weight = Of(ln1_weight_),
                      .ln1_bias = Of(ln1_bias_),
                      .ln2_weight = Of(ln2_weight_),
                      .ln2_bias = Of(ln2_bias_),
                      .q_norm = Of(q_norm_),
                      .k_norm = Of(k_norm_),
                      .query = query_.matrix,
                      .key = key_.matrix,
                      .value = value_.matrix,
                      .gate = gate_.matrix,
                      .output = output_.matrix,
                      .keys = Of(keys_),
                      .values = Of(values_),
                      .x_out = Of(out.x),
                      .z = {z.data(), z.size()},
                      .scratch = Of(scratch)});
    return out;
  }

  // rope(rms(head)), as the definition has it.
  static void NormAndRotate(const std::vector<float>& weight, int64_t position, double* head) {
    double square = 0;
    for (int i = 0; i < 128; ++i) square += head[i] * head[i] / 128;
    for (int i = 0; i < 128; ++i) head[i] = head[i] / std::sqrt(square + 1e-6) * weight[i];
    for (int i = 0; i < 16; ++i) {
      const double angle = position * std::pow(1e6, -2.0 * i / 32);
      const double a = head[i];
      const double b = head[i + 16];
      head[i] = a * std::cos(angle) - b * std::sin(angle);
      head[i + 16] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  // x_out of a query over the rows of its slot (position -> x), all of them computed afresh.
  Doubles Expected(const Entry& query, const std::map<int64_t, std::vector<float>>& rows) const {
    const auto normed = [&](const std::vector<float>& x) {
      return Normed({x.begin(), x.end()}, ln1_weight_, ln1_bias_);
    };
    const Doubles y = normed(query.x);
    Doubles q = Multiply(query_.values, y);
    const Doubles gate = Multiply(gate_.values, y);
    Doubles attention(2048);
    for (int head = 0; head < 16; ++head) {
      NormAndRotate(q_norm_, query.position, q.data() + head * 128);
      const int shared = head / 4 * 128;
      double total = 0;
      Doubles sum(128);
      for (int64_t p = std::max(query.first, query.position - kWindow + 1); p <= query.position;
           ++p) {
        Doubles k = Multiply(key_.values, normed(rows.at(p)));
        const Doubles v = Multiply(value_.values, normed(rows.at(p)));
        NormAndRotate(k_norm_, p, k.data() + shared);
        double score = 0;
        for (int i = 0; i < 128; ++i) score += q[head * 128 + i] * k[shared + i];
        const double weight = std::exp(score / std::sqrt(128.0));
        total += weight;
        for (int i = 0; i < 128; ++i) sum[i] += weight * v[shared + i];
      }
      for (int i = 0; i < 128; ++i) {
        attention[head * 128 + i] =
            sum[i] / total / (1 + std::exp(-gate[static_cast<size_t>(head) * 128 + i]));
      }
    }
    Doubles x = Multiply(output_.values, attention);
    for (int i = 0; i < kWidth; ++i) x[i] += query.x[i];
    return x;
  }

  void ExpectOutput(const Output& out, size_t index, const Doubles& expected) {
    ExpectNear(out.x.data() + index * kWidth, expected, "x");
    ExpectNear(out.z.data() + index * kWidth, Normed(expected, ln2_weight_, ln2_bias_), "z");
  }

  const std::vector<float> ln1_weight_ = RandomVector(kWidth, 0.2f, 1.0f);
  const std::vector<float> ln1_bias_ = RandomVector(kWidth, 0.2f);
  const std::vector<float> ln2_weight_ = RandomVector(kWidth, 0.2f, 1.0f);
  const std::vector<float> ln2_bias_ = RandomVector(kWidth, 0.2f);
  // Large norms make the softmax uneven.
  const std::vector<float> q_norm_ = RandomVector(128, 0.2f, 2.0f);
  const std::vector<float> k_norm_ = RandomVector(128, 0.2f, 2.0f);
  const Weights query_ = RandomMatrix(2048, kWidth);
  const Weights key_ = RandomMatrix(512, kWidth);
  const Weights value_ = RandomMatrix(512, kWidth);
  const Weights gate_ = RandomMatrix(2048, kWidth);
  const Weights output_ = RandomMatrix(kWidth, 2048);
  std::vector<float> keys_ = std::vector<float>(kSlots * kRing * 512 + kAttendKeyPadding, kPoison);
  std::vector<float> values_ = std::vector<float>(kSlots * kRing * 512, kPoison);
};

// Positions 0 .. 24 one by one: the window fills, slides, and the ring turns over twice.
TEST_F(AttendTest, WindowSlidesOverTheRing) {
  std::map<int64_t, std::vector<float>> rows;
  for (int64_t p = 0; p < 25; ++p) {
    const Entry entry{.slot = 1, .position = p, .asks = true, .x = RandomVector(kWidth)};
    rows[p] = entry.x;
    ExpectOutput(Run({entry}), 0, Expected(entry, rows));
  }
}

// A cold start at a high position sees nothing before it; angles are relative, so a large offset
// changes nothing but rounding.
TEST_F(AttendTest, FirstKeyBoundsTheWindow) {
  std::map<int64_t, std::vector<float>> rows;
  const int64_t start = 1000003;
  for (int64_t p = start; p < start + 4; ++p) {
    const Entry entry{.position = p, .first = start, .asks = true, .x = RandomVector(kWidth)};
    rows[p] = entry.x;
    ExpectOutput(Run({entry}), 0, Expected(entry, rows));
  }
}

// Many rows of two slots in one call, few of them asking, equal the same rows one by one: bit for
// bit.
TEST_F(AttendTest, RowsAreIndependent) {
  std::vector<Entry> together;
  std::map<int64_t, std::vector<float>> rows[kSlots];
  for (int64_t p = 0; p < kWindow + 2; ++p) {
    for (int slot = 0; slot < kSlots; ++slot) {
      together.push_back(
          {.slot = slot, .position = p, .asks = p >= kWindow, .x = RandomVector(kWidth)});
      rows[slot][p] = together.back().x;
    }
  }
  const Output out = Run(together);
  const std::vector<float> keys = keys_;
  std::fill(keys_.begin(), keys_.end(), kPoison);
  std::fill(values_.begin(), values_.end(), kPoison);
  size_t index = 0;
  for (const Entry& entry : together) {
    const Output alone = Run({entry});
    if (!entry.asks) continue;
    ExpectOutput(out, index, Expected(entry, rows[entry.slot]));
    EXPECT_EQ(alone.x, std::vector<float>(out.x.begin() + index * kWidth,
                                          out.x.begin() + (index + 1) * kWidth));
    EXPECT_EQ(alone.z, std::vector<float>(out.z.begin() + index * kWidth,
                                          out.z.begin() + (index + 1) * kWidth));
    ++index;
  }
  EXPECT_EQ(index, 4u);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (std::isnan(keys[i])) continue;
    ASSERT_EQ(keys_[i], keys[i]) << i;
  }
}

}  // namespace
}  // namespace tandem
