#include "common/tokenizer/vocabulary.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/utf8_decoder.h"
#include "common/tokenizer/vocabulary_line.h"

namespace tandem {
namespace {

// Tokens [begin, end) of the sorted order share their first `depth` bytes, the path to one trie
// node.
struct Range {
  size_t begin;
  size_t end;
  size_t depth;
};

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Parse(absl::string_view file_text, absl::string_view name,
                                             int32_t id_limit) {
  if (id_limit < 1 || id_limit > kMaxIds) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the id limit must be in 1..", kMaxIds, ", it is ", id_limit));
  }
  if (file_text.size() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the file is larger than 4 GiB"));
  }
  Vocabulary vocabulary;
  vocabulary.ends_.push_back(0);
  std::unordered_map<std::string, int32_t> ids;  // by token bytes
  absl::ConsumeSuffix(&file_text, "\n");
  int line_number = 0;
  for (absl::string_view line_text : absl::StrSplit(file_text, '\n')) {
    ++line_number;
    absl::ConsumeSuffix(&line_text, "\r");
    absl::StatusOr<VocabularyLine> line = ParseVocabularyLine(line_text);
    absl::Status status = line.status();
    if (status.ok()) status = vocabulary.Add(*line, id_limit);
    if (status.ok()) {
      const auto [known, inserted] = ids.emplace(std::move(line->bytes), line->id);
      if (inserted) continue;
      status = absl::InvalidArgumentError(
          absl::StrCat("the token is the same as that of id ", known->second));
    }
    return absl::Status(status.code(),
                        absl::StrCat(name, ":", line_number, ": ", status.message()));
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (ids.find(std::string(1, static_cast<char>(byte))) == ids.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: no token for the single byte 0x%02X, all 256 must be present",
                          std::string(name), byte));
    }
  }
  vocabulary.BuildTrie();
  return vocabulary;
}

absl::Status Vocabulary::Add(const VocabularyLine& line, int32_t id_limit) {
  if (line.id <= max_id()) {
    return absl::InvalidArgumentError(
        absl::StrCat("id ", line.id, " must be larger than the id before it, ", max_id(),
                     max_id() == kEndOfText ? " (the end of text, which is not in the file)" : ""));
  }
  if (line.id >= id_limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("id ", line.id, " must be below ", id_limit, ", the ids of the model"));
  }
  ends_.resize(line.id, static_cast<uint32_t>(bytes_.size()));
  bytes_.insert(bytes_.end(), line.bytes.begin(), line.bytes.end());
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  ++size_;
  return absl::OkStatus();
}

void Vocabulary::BuildTrie() {
  std::vector<int32_t>
      sorted;  // ids in the order of their bytes; a prefix comes before what it opens
  for (int32_t id = 1; id <= max_id(); ++id) {
    if (ends_[id] > ends_[id - 1]) sorted.push_back(id);
  }
  std::sort(sorted.begin(), sorted.end(),
            [this](int32_t a, int32_t b) { return Bytes(a) < Bytes(b); });

  std::vector<Range> ranges = {{.begin = 0, .end = sorted.size(), .depth = 0}};  // [nodes]
  nodes_.emplace_back();
  labels_.push_back(0);
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    if (Bytes(sorted[begin]).size() == depth) nodes_[node].id = sorted[begin++];
    nodes_[node].first_child = static_cast<int32_t>(nodes_.size());
    while (begin < end) {
      const char label = Bytes(sorted[begin])[depth];
      const size_t child_begin = begin;
      while (begin < end && Bytes(sorted[begin])[depth] == label) ++begin;
      ranges.push_back({.begin = child_begin, .end = begin, .depth = depth + 1});
      nodes_.emplace_back();
      labels_.push_back(static_cast<uint8_t>(label));
    }
    nodes_[node].child_count = static_cast<int32_t>(nodes_.size()) - nodes_[node].first_child;
  }
}

std::vector<int32_t> Vocabulary::Encode(absl::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 1);
  size_t position = 0;
  while (position < text.size()) {
    // Every single byte is a token, so there always is one that fits.
    const Node* node = &nodes_[1 + static_cast<uint8_t>(text[position])];
    int32_t id = node->id;
    size_t id_end = position + 1;
    for (size_t end = id_end; end < text.size() && node->child_count > 0;) {
      const uint8_t* labels = &labels_[node->first_child];  // [child_count]
      const void* found = std::memchr(labels, static_cast<uint8_t>(text[end]),
                                      static_cast<size_t>(node->child_count));
      if (found == nullptr) break;
      node = &nodes_[node->first_child + (static_cast<const uint8_t*>(found) - labels)];
      ++end;
      if (node->id != kEndOfText) {
        id = node->id;
        id_end = end;
      }
    }
    ids.push_back(id);
    position = id_end;
  }
  return ids;
}

absl::string_view Vocabulary::Bytes(int32_t id) const {
  if (id == kEndOfText) return absl::string_view();
  if (id < 0 || id > max_id() || ends_[id] == ends_[id - 1]) return kReplacementText;
  return absl::string_view(bytes_.data() + ends_[id - 1], ends_[id] - ends_[id - 1]);
}

std::string Vocabulary::Decode(absl::Span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    const absl::string_view bytes = Bytes(id);
    text.append(bytes.data(), bytes.size());
  }
  return text;
}

}  // namespace tandem
