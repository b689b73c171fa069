#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/draft_head/draft_head.h"
#include "kernels/linear/linear.h"
#include "tests/forwarding_backend.h"

namespace tandem {

// A backend that remembers the draft logits of every DraftHead call, with as much memory as the
// test allows.
class RecordingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // [calls][rows · V] by token id, V as far as the draft vocabulary reaches
  std::vector<std::vector<float>> draft_logits;
  // False: nothing is remembered, and RunRecorded works as it does in the real backend.
  bool remember = true;
  size_t allocation_limit = SIZE_MAX;  // bytes of one allocation

  void* Allocate(size_t bytes) override {
    return bytes > allocation_limit ? nullptr : real().Allocate(bytes);
  }
  void RunRecorded(const GraphKey& key, const std::function<void()>& enqueue) override {
    if (remember) return enqueue();
    real().RunRecorded(key, enqueue);
  }
  void DraftHead(const DraftHeadArgs& args) override {
    real().DraftHead(args);
    if (remember) Remember(args);
  }

 private:
  void Remember(const DraftHeadArgs& args) {
    const size_t head_rows = static_cast<size_t>(args.head.rows);
    std::vector<int32_t> ids(args.draft_vocab.size), rows(args.head_rows.size);
    std::vector<float> by_row(static_cast<size_t>(args.rows) * head_rows);
    CopyOut(ids.data(), args.draft_vocab.data, ids.size() * sizeof(int32_t));
    CopyOut(rows.data(), args.head_rows.data, rows.size() * sizeof(int32_t));
    CopyOut(by_row.data(), args.logits.data, by_row.size() * sizeof(float));
    Wait();
    const size_t vocab = static_cast<size_t>(*std::max_element(ids.begin(), ids.end())) + 1;
    std::vector<float> logits(static_cast<size_t>(args.rows) * vocab);
    for (size_t row = 0; row < static_cast<size_t>(args.rows); ++row) {
      for (size_t i = 0; i < ids.size(); ++i)
        logits[row * vocab + ids[i]] = by_row[row * head_rows + rows[i]];
    }
    draft_logits.push_back(std::move(logits));
  }
};

}  // namespace tandem
