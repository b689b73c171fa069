#include "common/drafter/mtp/mtp_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/drafter/mtp/mtp_file.h"
#include "common/drafter/mtp/mtp_path.h"
#include "tests/unit/model/mtp_files.h"

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Outcome {
  absl::Status status;
  size_t warnings = 0;
};

// Opens the tiny sidecar with one key of its meta replaced, for a base model.
Outcome Open(const std::string& key, const json& value, bool force,
             const MtpBase& base = {.name = "tiny", .layers = 2, .width = 64, .vocab = 48}) {
  const TempFolder folder;
  TinySidecar sidecar = MakeTinySidecar();
  if (!key.empty()) sidecar.meta[key] = value;
  WriteSidecar(folder, sidecar);
  const auto mtp = MtpFile::Open(folder.path(), base, force);
  return {.status = mtp.status(), .warnings = mtp.ok() ? (*mtp)->warnings().size() : 0};
}

TEST(MtpConfigTest, FormatVersionKindAndKeysAreRefusedForcedOrNot) {
  const std::pair<const char*, json> wrong[] = {
      {"format", "mtp"},
      {"format", nullptr},
      {"version", 2},
      {"version", "1"},
      {"kind", "rwkv"},
      {"base_model", ""},
      {"base_model", 7},
      {"n_layer", 0},
      {"n_layer", -2},
      {"n_embd", 64.5},
      {"n_embd", "64"},
      {"fuse_layers", {0}},
      {"fuse_layers", {1, 0}},
      {"fuse_layers", {1, 1}},
      {"fuse_layers", {-1, 1}},
      {"fuse_layers", {0, 1, 1}},
      {"fuse_layers", "0,1"},
      {"depth", 0},
      {"dd", 1},
      {"ctx", 0},
      {"ctx", 513},
  };
  for (const auto& [key, value] : wrong) {
    for (bool force : {false, true}) {
      const Outcome outcome = Open(key, value, force);
      EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument) << key << value;
      EXPECT_THAT(std::string(outcome.status.message()),
                  AllOf(HasSubstr("mtp.json"), HasSubstr(std::string("meta.") + key + " is " +
                                                         value.dump() + "; expected")));
    }
  }
}

TEST(MtpConfigTest, AnotherWidthIsRefusedForcedOrNot) {
  for (bool force : {false, true}) {
    const Outcome outcome = Open("n_embd", 128, force);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(outcome.status.message()),
                AllOf(HasSubstr("RWKV/tiny (2 layers, width 128)"),
                      HasSubstr("tiny (2 layers, width 64)"), HasSubstr("cannot fit")));
  }
}

TEST(MtpConfigTest, FusedLayersBeyondTheModelAreRefusedForcedOrNot) {
  for (bool force : {false, true}) {
    const Outcome outcome = Open("fuse_layers", {0, 2}, force);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("fuse_layers [0, 2] must be layers 0 to 1"));
  }
}

TEST(MtpConfigTest, AnotherNameOrLayerCountNeedsForce) {
  const std::pair<const char*, json> differing[] = {{"base_model", "RWKV/other"}, {"n_layer", 3}};
  for (const auto& [key, value] : differing) {
    const Outcome refused = Open(key, value, /*force=*/false);
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status.message()),
                AllOf(HasSubstr("the loaded model is tiny (2 layers, width 64)"),
                      HasSubstr("keeps the output correct but can be slower than no drafter")));
    const Outcome forced = Open(key, value, /*force=*/true);
    EXPECT_TRUE(forced.status.ok()) << forced.status;
    EXPECT_EQ(forced.warnings, 1u);
  }
  EXPECT_EQ(Open("", nullptr, /*force=*/true).warnings, 0u);
}

TEST(MtpConfigTest, NamesAreComparedByTheirLastComponent) {
  for (const char* name : {"tiny", "models/tiny.pth", "RWKV/tiny", "tiny.pth"}) {
    EXPECT_TRUE(Open("base_model", name, /*force=*/false).status.ok()) << name;
  }
  EXPECT_FALSE(Open("base_model", "tiny2", /*force=*/false).status.ok());
  EXPECT_FALSE(Open("base_model", "Tiny", /*force=*/false).status.ok());
}

TEST(MtpConfigTest, MissingFilesAreNotFound) {
  const TempFolder folder;
  const MtpBase base = {.name = "tiny", .layers = 2, .width = 64, .vocab = 48};
  EXPECT_EQ(MtpFile::Open(folder.path(), base, false).status().code(), absl::StatusCode::kNotFound);
  folder.Write("mtp.json", json({{"meta", MakeTinySidecar().meta}}).dump());
  const auto half = MtpFile::Open(folder.path(), base, false);
  EXPECT_EQ(half.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(half.status().message()), HasSubstr("mtp.safetensors"));
  folder.Write("mtp.json", "{}");
  EXPECT_THAT(std::string(MtpFile::Open(folder.path(), base, false).status().message()),
              HasSubstr("no object meta"));
}

TEST(MtpPathTest, AutoOffAndAPath) {
  const TempFolder folder;
  EXPECT_EQ(*ResolveMtpPath("auto", folder.path()), std::nullopt);
  EXPECT_EQ(*ResolveMtpPath("off", "deploy/demo-model"), std::nullopt);
  EXPECT_EQ(*ResolveMtpPath("auto", "deploy/demo-model"), "deploy/demo-model/mtp");
  EXPECT_EQ(*ResolveMtpPath("deploy/demo-model/mtp", folder.path()), "deploy/demo-model/mtp");
  EXPECT_EQ(ResolveMtpPath(folder.path(), folder.path()).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ResolveMtpPath("", folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
