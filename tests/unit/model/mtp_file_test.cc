#include "common/drafter/mtp/mtp_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/unit/model/mtp_files.h"

namespace tandem {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

const MtpBase kTiny = {.name = "tiny", .layers = 2, .width = 64, .vocab = 48};

std::string ErrorOf(const std::function<void(std::vector<TestTensor>&)>& damage) {
  const TempFolder folder;
  TinySidecar sidecar = MakeTinySidecar();
  damage(sidecar.tensors);
  WriteSidecar(folder, sidecar);
  // What is wrong with the tensors is refused when forced, too.
  const auto mtp = MtpFile::Open(folder.path(), kTiny, /*force=*/true);
  if (mtp.ok()) return "no error";
  EXPECT_EQ(mtp.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(mtp.status().message()), HasSubstr("mtp.safetensors"));
  return std::string(mtp.status().message());
}

// Numbers of the model card.
TEST(MtpFileTest, DemoSidecarIsAsItsCardSays) {
  const MtpBase demo = {.name = "rwkv7-demo-9m", .layers = 8, .width = 256, .vocab = 4096};
  const auto mtp = MtpFile::Open("deploy/demo-model/mtp", demo, /*force=*/false);
  ASSERT_TRUE(mtp.ok()) << mtp.status();
  const MtpConfig& config = (*mtp)->config();
  EXPECT_EQ(config.fuse_layers, (std::array<int, 2>{2, 5}));
  EXPECT_EQ(config.depth, 3);
  EXPECT_TRUE(config.depth_adapter);
  EXPECT_EQ(config.window, 512);
  EXPECT_EQ(config.tokens, 120201216);
  EXPECT_EQ((*mtp)->parameter_count(), 2692864);
  // 13·C² + 7168·C, 9 LayerNorms of 2C, 4C + 256.
  EXPECT_EQ((*mtp)->parameter_count(), 13 * 256 * 256 + 7168 * 256 + 18 * 256 + 4 * 256 + 256);
  EXPECT_TRUE((*mtp)->warnings().empty());
  std::vector<int32_t> ids = (*mtp)->draft_vocab();
  std::sort(ids.begin(), ids.end());
  std::vector<int32_t> all(4096);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(ids, all);
}

TEST(MtpFileTest, ReadsEveryTensor) {
  const TempFolder folder;
  WriteSidecar(folder, MakeTinySidecar());
  const auto mtp = MtpFile::Open(folder.path(), kTiny, /*force=*/false);
  ASSERT_TRUE(mtp.ok()) << mtp.status();
  EXPECT_EQ((*mtp)->draft_vocab(), (std::vector<int32_t>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ((*mtp)->names().size(), 18u + 13);
  for (const std::string& name : (*mtp)->names()) {
    const std::vector<float> values = (*mtp)->ReadFp32(name);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], TinyValue(name, static_cast<int64_t>(i))) << name << " " << i;
    }
    std::vector<uint16_t> bf16(values.size());
    (*mtp)->CopyBf16(name, absl::MakeSpan(bf16));
    const std::string bytes = Encode(values, DType::kBf16);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bf16.data()), bytes.size()), bytes);
  }
}

TEST(MtpFileTest, VariantsOfTheFileAreAccepted) {
  const TempFolder folder;
  TinySidecar sidecar = MakeTinySidecar();
  for (TestTensor& tensor : sidecar.tensors) {
    if (tensor.name == "lh.weight") tensor.shape = {1, 64};
    if (tensor.name == "blk.ffn.x_k") tensor.shape = {1, 1, 64};
    if (tensor.name == "proj.weight") tensor = MakeTensor(tensor.name, tensor.shape, DType::kFp32);
    if (tensor.name == "dep") tensor = MakeTensor(tensor.name, tensor.shape, DType::kFp16);
    if (tensor.name.rfind("attn.", 0) == 0) tensor.name = "blk." + tensor.name;
  }
  Erase(sidecar.tensors, "lo.bias");
  WriteSidecar(folder, sidecar);
  const auto mtp = MtpFile::Open(folder.path(), kTiny, /*force=*/false);
  ASSERT_TRUE(mtp.ok()) << mtp.status();
  EXPECT_EQ((*mtp)->Shape("blk.ffn.x_k"), (std::vector<int64_t>{64}));
  EXPECT_EQ((*mtp)->ReadFp32("proj.weight")[5], TinyValue("proj.weight", 5));
  EXPECT_EQ((*mtp)->ReadFp32("dep")[5], TinyValue("dep", 5));
  EXPECT_TRUE((*mtp)->Has("attn.q.weight"));
  EXPECT_EQ((*mtp)->ReadFp32("lo.bias"), std::vector<float>(64, 0.0f));
  std::vector<uint16_t> bias(64, 7);
  (*mtp)->CopyBf16("lo.bias", absl::MakeSpan(bias));
  EXPECT_THAT(bias, Each(0));
}

TEST(MtpFileTest, TheDepthAdapterFollowsTheMeta) {
  const TempFolder folder;
  TinySidecar sidecar = MakeTinySidecar();
  sidecar.meta["dd"] = false;
  WriteSidecar(folder, sidecar);
  EXPECT_THAT(std::string(MtpFile::Open(folder.path(), kTiny, true).status().message()),
              HasSubstr("meta.dd is false"));
  Erase(sidecar.tensors, "lhd.weight");
  Erase(sidecar.tensors, "lhd.bias");
  WriteSidecar(folder, sidecar);
  const auto mtp = MtpFile::Open(folder.path(), kTiny, /*force=*/false);
  ASSERT_TRUE(mtp.ok()) << mtp.status();
  EXPECT_FALSE((*mtp)->config().depth_adapter);
  EXPECT_FALSE((*mtp)->Has("lhd.weight"));
}

TEST(MtpFileTest, WrongTensorsAreRefused) {
  using T = std::vector<TestTensor>;
  const auto reshape = [](const std::string& name, const std::vector<int64_t>& shape) {
    return [=](T& t) { Find(t, name) = MakeTensor(name, shape, DType::kBf16); };
  };
  EXPECT_EQ(ErrorOf([](T&) {}), "no error");
  for (const char* name : {"lh.weight", "lhd.weight", "fproj.weight", "dep", "attn.q_norm.weight",
                           "blk.ffn.x_k", "blk.ln2.weight"}) {
    EXPECT_THAT(ErrorOf([&](T& t) { Erase(t, name); }), HasSubstr(std::string(name) + ": missing"));
  }
  EXPECT_THAT(ErrorOf([](T& t) { Erase(t, "draft_vocab"); }), HasSubstr("draft_vocab: missing"));
  EXPECT_THAT(ErrorOf([](T& t) { t.push_back(MakeTensor("attn.q.bias", {64}, DType::kBf16)); }),
              HasSubstr("attn.q.bias: a sidecar has no tensor of this name"));
  EXPECT_THAT(ErrorOf([](T& t) {
                t.push_back(MakeTensor("blk.attn.k.weight", {512, 64}, DType::kBf16));
              }),
              HasSubstr("expected one"));
  EXPECT_THAT(ErrorOf(reshape("fproj.weight", {64, 128})),
              HasSubstr("shape [64, 128]; expected [64, 192]"));
  EXPECT_THAT(ErrorOf(reshape("dep", {2, 64})), HasSubstr("shape [2, 64]; expected [3, 64]"));
  EXPECT_THAT(ErrorOf(reshape("attn.q_norm.weight", {2048})), HasSubstr("expected [128]"));
  EXPECT_THAT(ErrorOf(reshape("attn.o.weight", {2048, 64})), HasSubstr("expected [64, 2048]"));
  EXPECT_THAT(ErrorOf([](T& t) {
                Find(t, "dep") = MakeTensor("dep", {3, 64}, DType::kFp64);
              }),
              HasSubstr("dep: type fp64"));
  EXPECT_THAT(ErrorOf([](T& t) { Find(t, "lo.bias").bytes.replace(0, 2, "\x80\x7f"); }),
              HasSubstr("lo.bias: element 0 of 64 is NaN or infinite"));
}

TEST(MtpFileTest, WrongDraftVocabulariesAreRefused) {
  const auto with = [](const std::vector<float>& ids, const std::vector<int64_t>& shape,
                       DType dtype = DType::kInt64) {
    return ErrorOf([&](std::vector<TestTensor>& t) {
      Find(t, "draft_vocab") = {
          .name = "draft_vocab", .dtype = dtype, .shape = shape, .bytes = Encode(ids, dtype)};
    });
  };
  EXPECT_EQ(with({47}, {1}), "no error");
  EXPECT_THAT(with({3, 48}, {2}), HasSubstr("row 1 is token 48; expected 0 to 47"));
  EXPECT_THAT(with({-1}, {1}), HasSubstr("row 0 is token -1"));
  EXPECT_THAT(with({3, 4, 3}, {3}), HasSubstr("row 2 repeats token 3"));
  EXPECT_THAT(with({}, {0}), HasSubstr("M of at least 1"));
  EXPECT_THAT(with({1, 2}, {1, 2}), HasSubstr("expected int64 of shape [M]"));
  EXPECT_THAT(with({1, 2}, {2}, DType::kFp32), HasSubstr("fp32 of shape [2]"));
}

}  // namespace
}  // namespace tandem
