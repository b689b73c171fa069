#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

// Packs the rows `ids` of `head` [V, C] into `to` [N, C], which has its format, sizes and memory;
// values that bf16 does not hold are rounded to it. ids [N] < V and all matrices are in backend
// memory, as is the space for the work: x of at least C floats, y of at least V. More space makes
// it faster. Waits for the backend. RESOURCE_EXHAUSTED where packing needs memory for a while that
// there is not.
absl::Status GatherHead(Backend* backend, const Matrix& head, View<const int32_t> ids,
                        const Matrix& to, View<float> x, View<float> y);

}  // namespace tandem
