#include "kernels/attend/attend_cuda.h"
#include "kernels/attend/attend_parts_cuda.cuh"
#include "kernels/linear/linear_cuda.h"
#include "kernels/norm_cuda.cuh"

namespace tandem {
namespace {

static_assert(kAttendRopeBase == 1e6);
constexpr int kNormThreads = 512;
constexpr int kHeadThreads = kAttendHeadWidth;
constexpr int kWarps = kHeadThreads / kWarp;
static_assert(kWarps == kQueryHeadsPerKey && kAttendChunk == kWarp);

// y = LN_ln1(x) of every row, then of every query, whose x goes to x_out. Grid [R + Q].
__global__ void __launch_bounds__(kNormThreads)
    AttendNormKernel(const __grid_constant__ AttendArgs args, const AttendParts scratch) {
  BeginOverlapped();
  __shared__ float parts[kWarp + 1];
  const size_t c = args.width;
  const int block = blockIdx.x;
  const bool asks = block >= args.rows;
  const int query = block - args.rows;
  const float* const x = args.x.data + (asks ? args.query_rows.data[query] : block) * c;
  float* const to = asks ? scratch.query_y + query * c : scratch.y + block * c;
  const RowMoments moments = MomentsOf(x, args.width, kLayerNormEps, parts);
  for (int i = threadIdx.x; i < args.width; i += kNormThreads) {
    to[i] = Normed(x[i], moments, args.ln1_weight.data[i], args.ln1_bias.data[i]);
    if (asks) args.x_out.data[query * c + i] = x[i];
  }
}

// Norms and turns the keys of a row and writes them and its values to the ring, a warp per head.
__device__ void Append(const AttendArgs& args, const AttendParts& scratch, int row) {
  const size_t ring_size = args.ring_size;
  const size_t slot = args.slots.data[row];
  const long long position = args.positions.data[row];
  const size_t entry = position % args.ring_size;
  float* const k = scratch.k + static_cast<size_t>(row) * kAttendKeyWidth;
  const float* const v = scratch.v + static_cast<size_t>(row) * kAttendKeyWidth;
  NormAndRotate(args.k_norm.data, position, k + threadIdx.x / kWarp * kAttendHeadWidth);
  __syncthreads();
  float* const keys = args.keys.data + slot * kAttendKeyWidth * ring_size + entry;
  float* const values = args.values.data + (slot * ring_size + entry) * kAttendKeyWidth;
  for (int i = threadIdx.x; i < kAttendKeyWidth; i += kHeadThreads) {
    keys[i * ring_size] = k[i];
    values[i] = v[i];
  }
}

// Blocks 0 .. R - 1 append a row, the others turn four heads of a query. Grid [R + 4Q].
__global__ void __launch_bounds__(kHeadThreads)
    AttendRotateKernel(const __grid_constant__ AttendArgs args, const AttendParts scratch) {
  BeginOverlapped();
  const int block = static_cast<int>(blockIdx.x) - args.rows;
  if (block < 0) return Append(args, scratch, blockIdx.x);
  const int row = args.query_rows.data[block / kAttendKeyHeads];
  const size_t head = static_cast<size_t>(block) * kQueryHeadsPerKey + threadIdx.x / kWarp;
  NormAndRotate(args.q_norm.data, args.positions.data[row], scratch.q + head * kAttendHeadWidth);
}

// What the threads of AttendChunkKernel share.
struct ChunkShared {
  float4 queries[kAttendHeadWidth];                     // four heads side by side
  float sums[kWarps][kQueryHeadsPerKey][kAttendChunk];  // of a quarter of the dimensions each
  float4 weights[kAttendChunk];                         // four heads side by side
};

// This warp's quarter of the dot products of the chunk's keys, a key per lane, whose first
// dimension is at `key`, with the four heads.
__device__ void AddProducts(const float* key, size_t ring_size, ChunkShared& shared) {
  constexpr int kDims = kAttendHeadWidth / kWarps;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  key += warp * kDims * ring_size;
  float sums[kQueryHeadsPerKey] = {};
  float k[kDims];  // independent loads
#pragma unroll
  for (int i = 0; i < kDims; ++i) k[i] = key[i * ring_size];
#pragma unroll
  for (int i = 0; i < kDims; ++i) {
    const float4 q = shared.queries[warp * kDims + i];
    sums[0] += q.x * k[i];
    sums[1] += q.y * k[i];
    sums[2] += q.z * k[i];
    sums[3] += q.w * k[i];
  }
#pragma unroll
  for (int head = 0; head < kQueryHeadsPerKey; ++head) shared.sums[warp][head][lane] = sums[head];
}

// The scores of one head, a key per lane, become weights e^(score - largest); returns the largest
// and the sum.
__device__ float2 Weigh(int head, bool exists, ChunkShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  constexpr float kScale = 0.088388347648318447f;  // 1 / sqrt(128)
  const float product = (shared.sums[0][head][lane] + shared.sums[1][head][lane]) +
                        (shared.sums[2][head][lane] + shared.sums[3][head][lane]);
  const float score = exists ? product * kScale : -INFINITY;
  float largest = score;
  for (int step = kWarp / 2; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
  const float weight = exists ? expf(score - largest) : 0.0f;
  reinterpret_cast<float*>(&shared.weights[lane])[head] = weight;
  return make_float2(largest, WarpSum(weight));
}

// The weighted sum of one dimension of `live` values from ring entry `begin` on, for each head.
__device__ void MixValues(const float* values, int begin, int ring_size, int live,
                          const float4* weights, float* mixed) {
  constexpr int kBatch = 16;  // independent loads
#pragma unroll
  for (int head = 0; head < kQueryHeadsPerKey; ++head) mixed[head] = 0.0f;
  for (int first = 0; first < live; first += kBatch) {
    float v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int entry = begin + first + i;
      const int at = entry < ring_size ? entry : entry - ring_size;
      v[i] = first + i < live ? values[static_cast<size_t>(at) * kAttendKeyWidth] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      // A key that does not exist has weight and value 0.
      const float4 weight = weights[first + i];
      mixed[0] += weight.x * v[i];
      mixed[1] += weight.y * v[i];
      mixed[2] += weight.z * v[i];
      mixed[3] += weight.w * v[i];
    }
  }
}

// The part of the softmax over one chunk of the keys that a query sees, for the four heads of a
// key head: chunks count from the oldest key, so that the order of every sum depends on the number
// of keys only. Grid [chunks, 4, Q].
__global__ void __launch_bounds__(kHeadThreads)
    AttendChunkKernel(const __grid_constant__ AttendArgs args, const AttendParts scratch) {
  BeginOverlapped();
  __shared__ ChunkShared shared;
  const int chunk = blockIdx.x;
  const size_t key_head = blockIdx.y;
  const int query = blockIdx.z;
  const AttendWindow window = WindowOf(args, query);
  const int live = min(kAttendChunk, window.count - chunk * kAttendChunk);
  if (live <= 0) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const size_t ring_size = args.ring_size;
  const size_t ring = window.slot * ring_size * kAttendKeyWidth;
  const size_t first_head =
      static_cast<size_t>(query) * kAttendQueryHeads + key_head * kQueryHeadsPerKey;
  const float* const q = scratch.q + first_head * kAttendHeadWidth + threadIdx.x;
  shared.queries[threadIdx.x] =
      make_float4(q[0], q[kAttendHeadWidth], q[2 * kAttendHeadWidth], q[3 * kAttendHeadWidth]);
  const int begin = (window.begin + chunk * kAttendChunk) % args.ring_size;
  // Lanes without a key read one that exists.
  const int entry = (begin + (lane < live ? lane : 0)) % args.ring_size;
  __syncthreads();
  AddProducts(args.keys.data + ring + key_head * kAttendHeadWidth * ring_size + entry, ring_size,
              shared);
  __syncthreads();
  const float2 softmax = Weigh(warp, lane < live, shared);
  if (lane == 0) scratch.softmax[(first_head + warp) * gridDim.x + chunk] = softmax;
  __syncthreads();

  float mixed[kQueryHeadsPerKey];
  MixValues(args.values.data + ring + key_head * kAttendHeadWidth + threadIdx.x, begin,
            args.ring_size, live, shared.weights, mixed);
#pragma unroll
  for (int head = 0; head < kQueryHeadsPerKey; ++head) {
    const size_t part = (first_head + head) * gridDim.x + chunk;
    scratch.mixed[part * kAttendHeadWidth + threadIdx.x] = mixed[head];
  }
}

// Adds the chunks of a head, oldest first, and gates. Grid [16, Q].
__global__ void __launch_bounds__(kHeadThreads)
    AttendGateKernel(const __grid_constant__ AttendArgs args, const AttendParts scratch,
                     const int chunks) {
  BeginOverlapped();
  const int query = blockIdx.y;
  const int live = (WindowOf(args, query).count + kAttendChunk - 1) / kAttendChunk;
  const size_t head = static_cast<size_t>(query) * kAttendQueryHeads + blockIdx.x;
  const float2* const softmax = scratch.softmax + head * chunks;
  const float* const mixed = scratch.mixed + head * chunks * kAttendHeadWidth + threadIdx.x;
  float largest = -INFINITY;
  for (int i = 0; i < live; ++i) largest = fmaxf(largest, softmax[i].x);
  float total = 0.0f;
  float sum = 0.0f;
#pragma unroll 8
  for (int i = 0; i < live; ++i) {
    const float weight = expf(softmax[i].x - largest);
    total += weight * softmax[i].y;
    sum += weight * mixed[i * kAttendHeadWidth];
  }
  const size_t at = head * kAttendHeadWidth + threadIdx.x;
  scratch.attention[at] = sum / total * scratch.gate[at];
}

// z = LN_ln2(x_out). Grid [Q].
__global__ void __launch_bounds__(kNormThreads)
    AttendOutNormKernel(const __grid_constant__ AttendArgs args) {
  BeginOverlapped();
  __shared__ float parts[kWarp + 1];
  const float* const x = args.x_out.data + static_cast<size_t>(blockIdx.x) * args.width;
  float* const z = args.z.data[blockIdx.x];
  const RowMoments moments = MomentsOf(x, args.width, kLayerNormEps, parts);
  for (int i = threadIdx.x; i < args.width; i += kNormThreads)
    z[i] = Normed(x[i], moments, args.ln2_weight.data[i], args.ln2_bias.data[i]);
}

void Project(const AttendArgs& args, const AttendParts& scratch, const DeviceCuda& device) {
  const auto job = [](int rows, const Matrix& weight, float* x, float* y, Epilogue epilogue) {
    const size_t count = static_cast<size_t>(rows);
    return WholeRows(rows, weight, {x, count * weight.cols}, {y, count * weight.rows}, epilogue);
  };
  const LinearArgs jobs[] = {
      job(args.rows, args.key, scratch.y, scratch.k, Epilogue::kStore),
      job(args.rows, args.value, scratch.y, scratch.v, Epilogue::kStore),
      job(args.queries, args.query, scratch.query_y, scratch.q, Epilogue::kStore),
      job(args.queries, args.gate, scratch.query_y, scratch.gate, Epilogue::kSigmoid)};
  if (args.rows == args.queries) {
    LinearManyCuda(jobs, 4, device);
  } else {
    LinearManyCuda(jobs, 2, device);
    LinearManyCuda(jobs + 2, 2, device);
  }
}

}  // namespace

void AttendCuda(const AttendArgs& args, const DeviceCuda& device) {
  const AttendParts scratch = DivideCuda(args);
  const unsigned rows = static_cast<unsigned>(args.rows);
  const unsigned queries = static_cast<unsigned>(args.queries);
  const int chunks = AttendChunks(args);
  LaunchOverlapped(device, AttendNormKernel, dim3(rows + queries), dim3(kNormThreads), 0, args,
                   scratch);
  Project(args, scratch, device);
  LaunchOverlapped(device, AttendRotateKernel, dim3(rows + queries * kAttendKeyHeads),
                   dim3(kHeadThreads), 0, args, scratch);
  LaunchOverlapped(device, AttendChunkKernel,
                   dim3(static_cast<unsigned>(chunks), kAttendKeyHeads, queries),
                   dim3(kHeadThreads), 0, args, scratch);
  LaunchOverlapped(device, AttendGateKernel, dim3(kAttendQueryHeads, queries), dim3(kHeadThreads),
                   0, args, scratch, chunks);
  LinearCuda(
      WholeRows(args.queries, args.output, {scratch.attention, queries * size_t{kAttendQueryWidth}},
                args.x_out, Epilogue::kAdd),
      device);
  LaunchOverlapped(device, AttendOutNormKernel, dim3(queries), dim3(kNormThreads), 0, args);
}

}  // namespace tandem
