#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/model/weights_source.h"
#include "tests/unit/model/file_writers.h"

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// What an exporter writes for the tiny model.
json SoundConfig() {
  return {{"model_type", "rwkv7"},   {"vocab_size", 48},         {"hidden_size", 64},
          {"num_hidden_layers", 2},  {"head_dim", 64},           {"num_heads", nullptr},
          {"decay_low_rank_dim", 8}, {"a_low_rank_dim", 16},     {"v_low_rank_dim", 4},
          {"gate_low_rank_dim", 24}, {"intermediate_size", 256}, {"hidden_ratio", 4.0},
          {"norm_eps", 1e-5},        {"norm_bias", true},        {"tie_word_embeddings", false},
          {"hidden_act", "sqrelu"},  {"norm_first", true},       {"attn", nullptr},
          {"use_deep_embed", false}, {"bos_token_id", 1},        {"max_position_embeddings", 4096}};
}

std::string ErrorOf(const json& config) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsOf(ToFla(TinyModel(DType::kBf16))));
  folder.Write("config.json", config.dump());
  const auto source = WeightsSource::Open(folder.path());
  return source.ok() ? "no error" : std::string(source.status().message());
}

TEST(HfConfigTest, AConfigThatAgreesIsAccepted) {
  EXPECT_EQ(ErrorOf(SoundConfig()), "no error");
  EXPECT_EQ(ErrorOf(json::object()), "no error");
  json heads = SoundConfig();
  heads["num_heads"] = 1;
  heads["intermediate_size"] = nullptr;
  EXPECT_EQ(ErrorOf(heads), "no error");
}

TEST(HfConfigTest, EveryContradictionIsRefused) {
  const std::pair<const char*, json> wrong[] = {
      {"vocab_size", 49},         {"hidden_size", 65},
      {"num_hidden_layers", 3},   {"head_dim", 32},
      {"head_size", 32},          {"num_heads", 2},
      {"num_attention_heads", 2}, {"decay_low_rank_dim", 9},
      {"a_low_rank_dim", 8},      {"v_low_rank_dim", 8},
      {"gate_low_rank_dim", 8},   {"intermediate_size", 128},
      {"hidden_ratio", 3.5},      {"attention_hidden_size", 128},
      {"norm_eps", 1e-6},         {"norm_eps", "1e-5"},
      {"norm_bias", false},       {"tie_word_embeddings", true},
      {"hidden_act", "relu"},     {"norm_first", false},
      {"attn", json::object()},   {"use_deep_embed", true},
      {"vocab_size", "48"},       {"embedding_layer_norm_fused", 1},
  };
  for (const auto& [key, value] : wrong) {
    json config = SoundConfig();
    config[key] = value;
    const std::string error = ErrorOf(config);
    EXPECT_THAT(error, HasSubstr(std::string("config.json: ") + key + " is " + value.dump() +
                                 "; expected"));
  }
}

TEST(HfConfigTest, ATextThatIsNoConfigIsRefused) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsOf(ToOfficial(TinyModel(DType::kBf16))));
  for (const char* text : {"", "[]", "{", "{\"vocab_size\": 48, \"vocab_size\": 48}"}) {
    folder.Write("config.json", text);
    const auto source = WeightsSource::Open(folder.path());
    ASSERT_FALSE(source.ok()) << text;
    EXPECT_THAT(std::string(source.status().message()), HasSubstr("config.json")) << text;
  }
}

// A fused embedding needs no ln0, and its ln0 is not used when there is one.
TEST(HfConfigTest, AFusedEmbeddingNormIsReported) {
  const TempFolder folder;
  auto tensors = ToFla(TinyModel(DType::kBf16));
  folder.Write("config.json", json({{"embedding_layer_norm_fused", true}}).dump());
  for (bool present : {true, false}) {
    if (!present) {
      Erase(tensors, "model.layers.0.pre_norm.weight");
      Erase(tensors, "model.layers.0.pre_norm.bias");
    }
    folder.Write("model.safetensors", SafetensorsOf(tensors));
    const auto source = WeightsSource::Open(folder.path());
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_TRUE((*source)->config().embedding_normed);
    EXPECT_FALSE((*source)->Has("blocks.0.ln0.weight"));
  }
}

}  // namespace
}  // namespace tandem
