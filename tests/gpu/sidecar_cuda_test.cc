// What a drafter's row starts from, its channel-mix and its choice, on CUDA against the CPU.
#include <limits>
#include <utility>

#include "kernels/draft_fuse/draft_fuse.h"
#include "kernels/draft_head/draft_head.h"
#include "kernels/draft_mix/draft_mix.h"
#include "tests/gpu/sidecar_values.h"

namespace tandem {
namespace {

constexpr int kPool = 12;  // rows that a test chooses from
constexpr int kVocab = 50;
constexpr int kMoreHeadRows = 5;  // that are not in the draft vocabulary

struct Norm {
  Norm(SidecarValues& values, int width)
      : weight(values.Vector(width, 0.2f, 1.0f)), bias(values.Vector(width, 0.2f)) {}
  std::vector<float> weight, bias;
};

struct FuseValues {
  FuseValues(SidecarValues& values, int c)
      : width(c),
        norms(6, Norm(values, c)),
        fproj(values.Random(c, 3 * c)),
        proj(values.Random(c, 2 * c)),
        depth(values.Vector(c)),
        embedding(values.Vector(static_cast<size_t>(kVocab) * c)),
        features(values.Vector(static_cast<size_t>(kPool) * 3 * c, 3.0f, 0.5f)),
        previous(values.Vector(static_cast<size_t>(kPool) * c, 2.0f)) {
    for (Norm& norm : norms) norm = Norm(values, c);
    for (int i = 0; i < kPool; ++i) tokens.push_back(values.Int(0, kVocab - 1));
  }
  int width;
  std::vector<Norm> norms;  // lh, lf0, lf1, lhd, le, ln0
  HostMatrix fproj, proj;
  std::vector<float> depth, embedding, features, previous;
  std::vector<int32_t> tokens;
};

class Fuse final {
 public:
  Fuse(Backend& backend, const FuseValues& values)
      : backend_(backend),
        memory_(backend),
        values_(values),
        fproj_(Put(backend, values.fproj)),
        proj_(Put(backend, values.proj)),
        features_(memory_.In(values.features)) {}

  // x of the rows `indices` of the pool.
  std::vector<float> Run(const std::vector<int>& indices, bool first_depth) {
    const size_t c = static_cast<size_t>(values_.width);
    std::vector<const float*> features;
    std::vector<int32_t> tokens;
    for (const int i : indices) {
      features.push_back(features_.data + i * 3 * c);
      tokens.push_back(values_.tokens[i]);
    }
    const View<const float*> pointers = memory_.In(features);
    const View<float> x = memory_.Out<float>(indices.size() * c);
    const auto weight = [&](int i) { return memory_.In(values_.norms[i].weight); };
    const auto bias = [&](int i) { return memory_.In(values_.norms[i].bias); };
    backend_.DraftFuse({.rows = static_cast<int>(indices.size()),
                        .width = values_.width,
                        .features = {first_depth ? pointers.data : nullptr, pointers.size},
                        .previous = memory_.In(Select(values_.previous, indices, c)),
                        .tokens = memory_.In(tokens),
                        .embedding = memory_.In(values_.embedding),
                        .depth = memory_.In(values_.depth),
                        .lh_weight = weight(0),
                        .lh_bias = bias(0),
                        .lf0_weight = weight(1),
                        .lf0_bias = bias(1),
                        .lf1_weight = weight(2),
                        .lf1_bias = bias(2),
                        .lhd_weight = weight(3),
                        .lhd_bias = bias(3),
                        .le_weight = weight(4),
                        .le_bias = bias(4),
                        .ln0_weight = weight(5),
                        .ln0_bias = bias(5),
                        .fproj = fproj_,
                        .proj = proj_,
                        .x = x,
                        .scratch = memory_.Out<float>(indices.size() * 5 * c)});
    return memory_.Read(x);
  }

 private:
  Backend& backend_;
  OnDevice memory_;
  const FuseValues& values_;
  Matrix fproj_, proj_;
  View<float> features_;
};

struct MixValues {
  MixValues(SidecarValues& values, int c)
      : width(c),
        key(values.Random(4 * c, c)),
        value(values.Random(c, 4 * c, /*sparse_inputs=*/true)),
        x_k(values.Vector(c, 0.5f, 0.5f)),
        z(values.Vector(static_cast<size_t>(kPool) * c)),
        shifts(values.Vector(static_cast<size_t>(kPool) * c)),
        x(values.Vector(static_cast<size_t>(kPool) * c, 2.0f)) {}
  int width;
  HostMatrix key, value;
  std::vector<float> x_k, z, shifts, x;
};

class Mix final {
 public:
  Mix(Backend& backend, const MixValues& values)
      : backend_(backend),
        memory_(backend),
        values_(values),
        key_(Put(backend, values.key)),
        value_(Put(backend, values.value)),
        z_(memory_.In(values.z)),
        shifts_(memory_.In(values.shifts)) {}

  // x of the rows `indices` of the pool; row 1 has the z of row 0 as its shift.
  std::vector<float> Run(const std::vector<int>& indices) {
    const size_t c = static_cast<size_t>(values_.width);
    std::vector<const float*> z, z_prev;
    for (const int i : indices) {
      z.push_back(z_.data + i * c);
      z_prev.push_back(i == 1 ? z_.data : shifts_.data + i * c);
    }
    const View<float> x = memory_.In(Select(values_.x, indices, c));
    backend_.DraftMix({.rows = static_cast<int>(indices.size()),
                       .width = values_.width,
                       .z = memory_.In(z),
                       .z_prev = memory_.In(z_prev),
                       .x_k = memory_.In(values_.x_k),
                       .key = key_,
                       .value = value_,
                       .x = x,
                       .scratch = memory_.Out<float>(indices.size() * 6 * c)});
    return memory_.Read(x);
  }

 private:
  Backend& backend_;
  OnDevice memory_;
  const MixValues& values_;
  Matrix key_, value_;
  View<float> z_, shifts_;
};

struct HeadValues {
  HeadValues(SidecarValues& values, int c, int choices)
      : width(c),
        norm(values, c),
        head(values.Random(choices + kMoreHeadRows, c)),
        x(values.Vector(static_cast<size_t>(kPool) * c, 2.0f, 1.0f)) {
    for (int i = 0; i < choices; ++i) {
      head_rows.push_back(choices - 1 - i);
      draft_vocab.push_back(i * 7 % 65536);
    }
  }
  int width;
  Norm norm;
  HostMatrix head;
  std::vector<float> x;
  std::vector<int32_t> head_rows, draft_vocab;
};

struct HeadResult {
  std::vector<float> o, logits;
  std::vector<int32_t> tokens;
};

class Head final {
 public:
  Head(Backend& backend, const HeadValues& values)
      : backend_(backend), memory_(backend), values_(values), head_(Put(backend, values.head)) {}

  HeadResult Run(const std::vector<int>& indices) {
    const size_t c = static_cast<size_t>(values_.width);
    const View<float> o = memory_.Out<float>(indices.size() * c);
    const View<float> logits = memory_.Out<float>(indices.size() * values_.head.shape.rows);
    const View<int32_t> tokens = memory_.Out<int32_t>(indices.size());
    backend_.DraftHead({.rows = static_cast<int>(indices.size()),
                        .width = values_.width,
                        .x = memory_.In(Select(values_.x, indices, c)),
                        .lo_weight = memory_.In(values_.norm.weight),
                        .lo_bias = memory_.In(values_.norm.bias),
                        .head = head_,
                        .head_rows = memory_.In(values_.head_rows),
                        .draft_vocab = memory_.In(values_.draft_vocab),
                        .o = o,
                        .logits = logits,
                        .tokens = tokens});
    return {.o = memory_.Read(o), .logits = memory_.Read(logits), .tokens = memory_.Read(tokens)};
  }

 private:
  Backend& backend_;
  OnDevice memory_;
  const HeadValues& values_;
  Matrix head_;
};

// Rows together, some of them twice, in sets that fill no tile.
const std::vector<std::vector<int>> kSets = {
    {0},
    {1, 0},
    {3, 2, 1},
    {0, 1, 2, 3, 4, 5, 6, 7, 8},
    {11, 5, 5, 7, 3, 0, 9, 10, 1, 2, 4, 6, 8, 3, 11, 0, 7}};

class SidecarCudaTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    cuda_ = CudaOrNull();
    if (cuda_ == nullptr) GTEST_SKIP() << "no CUDA device";
  }

  std::unique_ptr<Backend> cuda_;
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend(0);
  SidecarValues random_{static_cast<uint64_t>(GetParam())};
};

TEST_P(SidecarCudaTest, DraftFuse) {
  const FuseValues values(random_, GetParam());
  Fuse cuda(*cuda_, values);
  Fuse cpu(*cpu_, values);
  for (const bool first_depth : {true, false}) {
    std::vector<std::vector<float>> alone;
    for (int i = 0; i < kPool; ++i) alone.push_back(cuda.Run({i}, first_depth));
    for (const std::vector<int>& set : kSets) {
      const std::vector<float> x = cuda.Run(set, first_depth);
      ExpectClose(x, cpu.Run(set, first_depth), "x");
      for (size_t row = 0; row < set.size(); ++row)
        EXPECT_TRUE(SameRow(x, static_cast<int>(row), alone[set[row]])) << "row " << row;
    }
  }
}

TEST_P(SidecarCudaTest, DraftMix) {
  const MixValues values(random_, GetParam());
  Mix cuda(*cuda_, values);
  Mix cpu(*cpu_, values);
  std::vector<std::vector<float>> alone;
  for (int i = 0; i < kPool; ++i) alone.push_back(cuda.Run({i}));
  for (const std::vector<int>& set : kSets) {
    const std::vector<float> x = cuda.Run(set);
    ExpectClose(x, cpu.Run(set), "x");
    for (size_t row = 0; row < set.size(); ++row)
      EXPECT_TRUE(SameRow(x, static_cast<int>(row), alone[set[row]])) << "row " << row;
  }
}

TEST_P(SidecarCudaTest, DraftHead) {
  for (const int choices : {1, 1000, 16384}) {
    const HeadValues values(random_, GetParam(), choices);
    Head cuda(*cuda_, values);
    Head cpu(*cpu_, values);
    std::vector<HeadResult> alone;
    for (int i = 0; i < kPool; ++i) alone.push_back(cuda.Run({i}));
    for (const std::vector<int>& set : kSets) {
      const HeadResult result = cuda.Run(set);
      const HeadResult expected = cpu.Run(set);
      ExpectClose(result.o, expected.o, "o");
      ExpectClose(result.logits, expected.logits, "logits");
      for (size_t row = 0; row < set.size(); ++row) {
        const HeadResult& one = alone[set[row]];
        EXPECT_TRUE(SameRow(result.o, static_cast<int>(row), one.o)) << "row " << row;
        EXPECT_TRUE(SameRow(result.logits, static_cast<int>(row), one.logits)) << "row " << row;
        const float* logits = result.logits.data() + row * values.head.shape.rows;
        const auto best = std::max_element(values.head_rows.begin(), values.head_rows.end(),
                                           [&](int a, int b) { return logits[a] < logits[b]; }) -
                          values.head_rows.begin();
        EXPECT_EQ(result.tokens[row], values.draft_vocab[best]) << "row " << row;
        EXPECT_EQ(one.tokens[0], values.draft_vocab[best]) << "row " << row;
      }
    }
  }
}

// The marks are the logits, up to one common factor.
TEST_P(SidecarCudaTest, DraftHeadTieTakesTheMoreFrequentAndNanNeverWins) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  HeadValues values(random_, GetParam(), 5000);
  std::fill(values.x.begin(), values.x.end(), 0.0f);
  std::fill(values.norm.weight.begin(), values.norm.weight.end(), 1.0f);
  std::fill(values.norm.bias.begin(), values.norm.bias.end(), 0.0f);
  values.x[0] = 1.0f;
  const auto token = [&](float others, const std::vector<std::pair<int, float>>& marks) {
    const auto bits = [](float mark) {
      return static_cast<uint16_t>(std::bit_cast<uint32_t>(mark) >> 16);
    };
    std::fill(values.head.bf16.begin(), values.head.bf16.end(), uint16_t{0});
    const size_t c = static_cast<size_t>(values.width);
    for (const int32_t row : values.head_rows) values.head.bf16[row * c] = bits(others);
    for (const auto& [i, mark] : marks) values.head.bf16[values.head_rows[i] * c] = bits(mark);
    return Head(*cuda_, values).Run({0}).tokens[0];
  };
  EXPECT_EQ(token(1.0f, {{4999, 2.0f}, {1500, 2.0f}, {476, kNan}}), values.draft_vocab[1500]);
  EXPECT_EQ(token(1.0f, {{0, kNan}}), values.draft_vocab[1]);
  EXPECT_EQ(token(-1.0f, {{1024, -0.5f}, {33, -0.5f}}), values.draft_vocab[33]);
  EXPECT_EQ(token(kNan, {{3210, -3.0f}}), values.draft_vocab[3210]);
  EXPECT_EQ(token(kNan, {}), values.draft_vocab[0]);
}

INSTANTIATE_TEST_SUITE_P(Widths, SidecarCudaTest, testing::Values(256, 2560),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem
