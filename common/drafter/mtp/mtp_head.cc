#include "common/drafter/mtp/mtp_head.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/model/no_memory.h"
#include "kernels/linear/quantize.h"

namespace tandem {
namespace {

// More columns at a time would only cost more memory on the host.
constexpr size_t kMostColumns = 64;

}  // namespace

// Whatever the format and layout, the product with the unit vector of column k is column k.
absl::Status GatherHead(Backend* backend, const Matrix& head, View<const int32_t> ids,
                        const Matrix& to, View<float> x, View<float> y) {
  const size_t c = static_cast<size_t>(head.cols);
  const size_t vocab = static_cast<size_t>(head.rows);
  const size_t most = std::min({kMostColumns, x.size / c, y.size / vocab});
  CHECK(most > 0 && to.cols == head.cols && static_cast<size_t>(to.rows) == ids.size);
  std::vector<int32_t> host_ids(ids.size);
  backend->CopyOut(host_ids.data(), ids.data, ids.size * sizeof(int32_t));
  std::vector<uint16_t> rows(ids.size * c);  // [N, C]
  std::vector<float> columns(most * vocab);  // [most, V]
  for (size_t first = 0; first < c; first += most) {
    const size_t count = std::min(most, c - first);
    std::vector<float> units(count * c);  // [count, C]
    for (size_t i = 0; i < count; ++i) units[i * c + first + i] = 1.0f;
    backend->CopyIn(x.data, units.data(), units.size() * sizeof(float));
    backend->Linear({.rows = static_cast<int>(count),
                     .weight = head,
                     .x = x,
                     .x_stride = c,
                     .y = y,
                     .y_stride = vocab});
    backend->CopyOut(columns.data(), y.data, count * vocab * sizeof(float));
    backend->Wait();
    for (size_t n = 0; n < ids.size; ++n) {
      for (size_t i = 0; i < count; ++i)
        rows[n * c + first + i] = FloatToBf16(columns[i * vocab + host_ids[n]]);
    }
  }
  if (backend->Pack(const_cast<void*>(to.data), to, rows.data())) return absl::OkStatus();
  return NoMemoryToPack(*backend, "the sidecar's rows of the head", to,
                        "use a smaller format with --draft-weights");
}

}  // namespace tandem
