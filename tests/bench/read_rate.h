#pragma once

namespace tandem {

// Bytes per second that CUDA device `device` reads at most: a kernel that only reads, over a buffer
// that no cache holds, the median of several runs. 0 without a device.
double MeasureReadRate(int device);

}  // namespace tandem
