#pragma once

#include "kernels/device_cuda.h"
#include "kernels/draft_exchange/draft_exchange.h"

namespace tandem {

void StampCuda(uint64_t* to, const DeviceCuda& device);
void DraftTakeCuda(const DraftTakeArgs& args, const DeviceCuda& device);
void DraftPublishCuda(const DraftPublishArgs& args, const DeviceCuda& device);
void DraftResolveCuda(const DraftResolveArgs& args, const DeviceCuda& device);
void DraftAnswerCuda(const DraftAnswerArgs& args, const DeviceCuda& device);

}  // namespace tandem
