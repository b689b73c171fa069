#include "tests/unit/model/mtp_files.h"

namespace tandem {

TinySidecar MakeTinySidecar() {
  constexpr int64_t kWidth = 64;
  TinySidecar sidecar;
  sidecar.meta = {{"format", "rwkv-mtp"}, {"version", 1},   {"base_model", "RWKV/tiny"},
                  {"n_layer", 2},         {"n_embd", 64},   {"fuse_layers", {0, 1}},
                  {"kind", "attn"},       {"depth", 3},     {"dd", true},
                  {"ctx", 512},           {"target", "kl"}, {"tokens", 1000},
                  {"unknown", "ignored"}};
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    sidecar.tensors.push_back(MakeTensor(name, shape, DType::kBf16));
  };
  for (const char* norm :
       {"lh", "lf.0", "lf.1", "lhd", "le", "lo", "blk.ln0", "blk.ln1", "blk.ln2"}) {
    add(std::string(norm) + ".weight", {kWidth});
    add(std::string(norm) + ".bias", {kWidth});
  }
  add("fproj.weight", {kWidth, 3 * kWidth});
  add("dep", {3, kWidth});
  add("proj.weight", {kWidth, 2 * kWidth});
  add("attn.q.weight", {2048, kWidth});
  add("attn.k.weight", {512, kWidth});
  add("attn.v.weight", {512, kWidth});
  add("attn.g.weight", {2048, kWidth});
  add("attn.o.weight", {kWidth, 2048});
  add("attn.q_norm.weight", {128});
  add("attn.k_norm.weight", {128});
  add("blk.ffn.x_k", {kWidth});
  add("blk.ffn.key.weight", {4 * kWidth, kWidth});
  add("blk.ffn.value.weight", {kWidth, 4 * kWidth});
  const std::vector<float> ids = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  sidecar.tensors.push_back({.name = "draft_vocab",
                             .dtype = DType::kInt64,
                             .shape = {10},
                             .bytes = Encode(ids, DType::kInt64)});
  return sidecar;
}

void WriteSidecar(const TempFolder& folder, const TinySidecar& sidecar) {
  folder.Write("mtp.json", nlohmann::json({{"meta", sidecar.meta}}).dump());
  folder.Write("mtp.safetensors", SafetensorsOf(sidecar.tensors));
}

}  // namespace tandem
