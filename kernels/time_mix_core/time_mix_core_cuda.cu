#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear_cuda.h"
#include "kernels/time_mix_core/time_mix_core_cuda.h"
#include "kernels/time_mix_core/wkv_cuda.cuh"

namespace tandem {
namespace {

constexpr float kGroupNormEps = 64e-5f;
constexpr float kSmallestNorm = 1e-12f;
constexpr float kDecayScale = 0.6065306597126334f;  // e^-0.5

// The four planes of scratch: the second low-rank factors of w, a, v and g.
enum Plane { kDecay = 0, kIcl = 1, kMix = 2, kGate = 3 };

// Tokens that are prepared and finished together, a warp each; a lane of the warp has two
// neighbouring channels.
constexpr int kTile = kWkvWarps;

// What the recurrence reads of a tile's tokens, and u and y, which it leaves.
struct Tile {
  alignas(16) float decay[kTile][kHead];
  alignas(16) float k[kTile][kHead];
  alignas(16) float b[kTile][kHead];
  alignas(16) float kappa[kTile][kHead];
  alignas(16) float r[kTile][kHead];
  float v[kTile][kHead];
  float u[kTile][kHead];
  float y[kTile][kHead];
  float gate[kTile][kHead];
};

// A token as it comes from the projections: two channels of a head.
struct RawToken {
  float2 w, a, mix, g, r, k, v, v_first;
};

__device__ float2 Load2(const float* at) { return *reinterpret_cast<const float2*>(at); }
__device__ void Store2(float* at, float x, float y) {
  *reinterpret_cast<float2*>(at) = make_float2(x, y);
}
// The quick divide needs no slow path: its divisor is at least 1.
__device__ float Sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

// `at` is the thread's place in [T, C].
__device__ RawToken LoadToken(const TimeMixCoreArgs& args, size_t at) {
  const size_t plane = static_cast<size_t>(args.rows) * args.width;
  const float* scratch = args.scratch.data + at;
  RawToken token;
  token.w = Load2(scratch + kDecay * plane);
  token.a = Load2(scratch + kIcl * plane);
  token.g = Load2(scratch + kGate * plane);
  token.r = Load2(args.r.data + at);
  token.k = Load2(args.k.data + at);
  token.v = Load2(args.v.data + at);
  token.mix = token.v_first = make_float2(0.0f, 0.0f);
  if (args.v2.rows > 0) {
    token.mix = Load2(scratch + kMix * plane);
    token.v_first = Load2(args.v_first.data + at);
  }
  return token;
}

__device__ float DecayOf(float w0, float w) { return expf(-kDecayScale * Sigmoid(w0 + w)); }
__device__ float MixedKey(float k, float a, float k_a) {
  return __fmul_rn(k, __fmaf_rn(a - 1.0f, k_a, 1.0f));
}
__device__ float MixedValue(float v, float v_first, float share) {
  return __fmaf_rn(v_first - v, share, v);
}

// One token per warp, from the projections to what the recurrence reads, into row i of the tile.
// `at` as in LoadToken, `channel` the thread's two in [C], `c` those in the head.
__device__ void PrepareToken(const TimeMixCoreArgs& args, const RawToken& token, size_t at,
                             int channel, int c, int i, Tile& tile) {
  float2 v = token.v;
  if (args.v2.rows > 0) {
    const float2 v0 = Load2(args.v0.data + channel);
    v.x = MixedValue(v.x, token.v_first.x, Sigmoid(v0.x + token.mix.x));
    v.y = MixedValue(v.y, token.v_first.y, Sigmoid(v0.y + token.mix.y));
  } else {
    Store2(args.v_first.data + at, v.x, v.y);
  }
  const float2 k_k = Load2(args.k_k.data + channel), k_a = Load2(args.k_a.data + channel);
  const float2 w0 = Load2(args.w0.data + channel), a0 = Load2(args.a0.data + channel);
  const float kk_x = __fmul_rn(token.k.x, k_k.x), kk_y = __fmul_rn(token.k.y, k_k.y);
  const float squares = WarpSum(__fmaf_rn(kk_y, kk_y, __fmul_rn(kk_x, kk_x)));
  const float scale = fminf(rsqrtf(squares), 1.0f / kSmallestNorm);
  const float a_x = Sigmoid(a0.x + token.a.x), a_y = Sigmoid(a0.y + token.a.y);
  const float kappa_x = __fmul_rn(kk_x, scale), kappa_y = __fmul_rn(kk_y, scale);
  Store2(tile.decay[i] + c, DecayOf(w0.x, token.w.x), DecayOf(w0.y, token.w.y));
  Store2(tile.k[i] + c, MixedKey(token.k.x, a_x, k_a.x), MixedKey(token.k.y, a_y, k_a.y));
  Store2(tile.b[i] + c, __fmul_rn(kappa_x, a_x), __fmul_rn(kappa_y, a_y));
  Store2(tile.kappa[i] + c, kappa_x, kappa_y);
  Store2(tile.r[i] + c, token.r.x, token.r.y);
  Store2(tile.v[i] + c, v.x, v.y);
  Store2(tile.gate[i] + c, token.g.x, token.g.y);
}

// Group norm, bonus and gate of row i of the tile, one token per warp.
__device__ void FinishToken(const TimeMixCoreArgs& args, size_t at, int channel, int c, int i,
                            const Tile& tile) {
  const float2 y = Load2(tile.y[i] + c), r = Load2(tile.r[i] + c), k = Load2(tile.k[i] + c),
               v = Load2(tile.v[i] + c), gate = Load2(tile.gate[i] + c);
  const float2 r_k = Load2(args.r_k.data + channel), weight = Load2(args.ln_weight.data + channel),
               bias = Load2(args.ln_bias.data + channel);
  const float mean = WarpSum(y.x + y.y) * (1.0f / kHead);
  const float bonus =
      WarpSum(__fmaf_rn(__fmul_rn(r.y, k.y), r_k.y, __fmul_rn(__fmul_rn(r.x, k.x), r_k.x)));
  const float x0 = y.x - mean, x1 = y.y - mean;
  const float variance = WarpSum(__fmaf_rn(x1, x1, __fmul_rn(x0, x0))) * (1.0f / kHead);
  const float scale = rsqrtf(variance + kGroupNormEps);
  const float normed_x = __fmaf_rn(__fmul_rn(x0, scale), weight.x, bias.x);
  const float normed_y = __fmaf_rn(__fmul_rn(x1, scale), weight.y, bias.y);
  Store2(args.y.data + at, __fmul_rn(__fmaf_rn(bonus, v.x, normed_x), gate.x),
         __fmul_rn(__fmaf_rn(bonus, v.y, normed_y), gate.y));
}

// What row i of the tile does to S, into log entry `entry` [5, C] at this thread's channels.
__device__ void LogToken(const Tile& tile, int c, int i, int width, float* entry) {
  const float* const rows[5] = {tile.decay[i], tile.k[i], tile.v[i], tile.u[i], tile.b[i]};
#pragma unroll
  for (int row = 0; row < 5; ++row) {
    const float2 value = Load2(rows[row] + c);
    Store2(entry + static_cast<size_t>(row) * width, value.x, value.y);
  }
}

// Runs the first `count` tokens of the tile in order and writes S to `committed` after token
// `commit_after`, if it is one of them. No thread needs another warp's cells, hence no barriers.
__device__ void RunTile(WkvCells& cells, Tile& tile, int count, int commit_after,
                        float* committed) {
  const int value = ValueOfThread();
  for (int i = 0; i < count; ++i) {
    const float u = 0.0f - DotCells(cells, tile.kappa[i]);
    UpdateCells(cells, tile.decay[i], tile.k[i], tile.b[i], u, tile.v[i][value]);
    const float y = DotCells(cells, tile.r[i]);
    if (PartOfThread() == 0) {
      tile.u[i][value] = u;
      tile.y[i][value] = y;
    }
    if (i == commit_after) StoreCells(cells, committed);
  }
}

// Brings S and the vectors of a head to the L2 cache.
__device__ void PrefetchHead(const TimeMixCoreArgs& args, int head, const float* committed) {
  constexpr int kLine = 32;  // floats of a cache line
  constexpr int kStateLines = kHead * kHead / kLine, kLines = kHead / kLine;
  const int i = static_cast<int>(threadIdx.x);
  if (i < kStateLines) return PrefetchLine(committed + i * kLine);
  const int line = i - kStateLines;
  const auto prefetch = [&](int n, const View<const float>& vector) {
    if (line / kLines == n && vector.size > 0)
      PrefetchLine(vector.data + head * kHead + line % kLines * kLine);
  };
  prefetch(0, args.w0);
  prefetch(1, args.a0);
  prefetch(2, args.v0);
  prefetch(3, args.k_k);
  prefetch(4, args.k_a);
  prefetch(5, args.r_k);
  prefetch(6, args.ln_weight);
  prefetch(7, args.ln_bias);
}

// One head of one lane per block. S stays in registers; every token goes through the same code,
// whether it is certain, provisional or replayed later.
__global__ void __launch_bounds__(kWkvThreads, 3) TimeMixCoreKernel(const TimeMixCoreArgs args) {
  __shared__ Tile tile;
  __shared__ WkvLog log;
  LetNextStart();
  const int head = static_cast<int>(blockIdx.x), lane = static_cast<int>(blockIdx.y);
  const int first = args.lanes.offsets[lane], end = args.lanes.offsets[lane + 1];
  const int slot = args.lanes.slots[lane];
  const int last_certain = end - args.lanes.provisional[lane] - 1;
  float* const committed = args.wkv.committed + slot * args.wkv.committed_stride +
                           static_cast<size_t>(head) * kHead * kHead;
  float* const entries = args.wkv.log + slot * args.wkv.log_stride + head * kHead;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int c = 2 * (static_cast<int>(threadIdx.x) % kWarp);
  const int channel = head * kHead + c;
  const size_t width = static_cast<size_t>(args.width);
  PrefetchHead(args, head, committed);
  WaitForEarlier();

  const int accepted = ClampAccepted(args.lanes.accepted[slot]);
  WkvCells cells = LoadCells(committed);
  LoadLog(entries, accepted, args.width, log);
  RawToken next = {};
  if (first + warp < end) next = LoadToken(args, (first + warp) * width + channel);
  for (int start = first; start < end; start += kTile) {
    const int token = start + warp;
    if (token < end) PrepareToken(args, next, token * width + channel, channel, c, warp, tile);
    // The tile, and before the first one the log, are complete.
    __syncthreads();
    if (token + kTile < end) next = LoadToken(args, (token + kTile) * width + channel);
    if (start == first) ReplayCells(cells, log, accepted);
    RunTile(cells, tile, min(kTile, end - start), last_certain - start, committed);
    // u and y of all values are there, and the tile may be written again.
    __syncthreads();
    if (token >= end) continue;
    FinishToken(args, token * width + channel, channel, c, warp, tile);
    if (token > last_certain) {
      float* const entry = entries + static_cast<size_t>(token - last_certain - 1) * 5 * width + c;
      LogToken(tile, c, warp, args.width, entry);
    }
  }
}

}  // namespace

void TimeMixCoreCuda(const TimeMixCoreArgs& args, const DeviceCuda& device) {
  const size_t plane = static_cast<size_t>(args.rows) * args.width;
  const auto factor = [&](const Matrix& weight, const View<const float>& low, Plane to) {
    return WholeRows(args.rows, weight, low, args.scratch.Sub(to * plane, plane));
  };
  const LinearArgs factors[] = {
      factor(args.w2, args.w_low, kDecay), factor(args.a2, args.a_low, kIcl),
      factor(args.g2, args.g_low, kGate), factor(args.v2, args.v_low, kMix)};
  LinearManyCuda(factors, args.v2.rows > 0 ? 4 : 3, device);
  LaunchOverlapped(device, TimeMixCoreKernel, dim3(args.width / kHead, args.lanes.count),
                   dim3(kWkvThreads), 0, args);
}

}  // namespace tandem
