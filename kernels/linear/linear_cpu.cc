#include "kernels/linear/linear_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/linear/format_cpu.h"
#include "kernels/linear/round_rows_cpu.h"
#include "kernels/thread_pool.h"

namespace tandem {
namespace {

const LinearFormatCpu& Format(WeightFormat format) {
  switch (format) {
#define TANDEM_WEIGHT_FORMAT(name, folder) \
  case WeightFormat::k##name:              \
    return Linear##name##Cpu();
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT
  }
  return LinearBf16Cpu();
}

// Rows of one piece of work: many enough to use a block of weights from the cache again and again.
constexpr int kPieceRows = 64;
// Multiply-adds below which a piece costs more to hand out than to do.
constexpr int64_t kPieceWork = 32 * 1024;
// Spans of rows per job; longer passes get longer spans.
constexpr int kMostSpans = 64;

// How one job is cut: groups of blocks times spans of rows.
struct Cut {
  int group = 0;  // blocks
  int groups = 0;
  int span = 0;  // rows
  int spans = 0;
  int pieces() const { return groups * spans; }
};

Cut CutJob(const LinearArgs& job, int64_t total_work, int threads) {
  const int blocks = LinearBlocks(job.weight.rows);
  if (job.rows == 0 || blocks == 0) return {};
  const int rows = std::min(job.rows, kPieceRows);
  const int64_t block_work = static_cast<int64_t>(rows) * job.weight.cols * kLinearBlock;
  const int64_t piece_work = std::max(kPieceWork, total_work / (threads * 4));
  // Multiples of four blocks: the widest tile.
  const int64_t group = std::max<int64_t>(1, piece_work / std::max<int64_t>(block_work, 1) / 4) * 4;
  Cut cut;
  cut.group = static_cast<int>(std::min<int64_t>(group, blocks));
  cut.groups = (blocks + cut.group - 1) / cut.group;
  cut.span = std::max(kPieceRows, (job.rows + kMostSpans - 1) / kMostSpans);
  cut.spans = (job.rows + cut.span - 1) / cut.span;
  return cut;
}

void RunPiece(const LinearArgs& job, const Cut& cut, int piece) {
  const int first_block = piece % cut.groups * cut.group;
  const int end_block = std::min(first_block + cut.group, LinearBlocks(job.weight.rows));
  const int first_row = piece / cut.groups * cut.span;
  LinearPart(job, first_block, end_block, first_row, std::min(first_row + cut.span, job.rows));
}

// Rounds the rows of the jobs whose matrices want it into the calling thread's memory, which stays
// as large as its largest call.
void RoundJobs(LinearArgs* jobs, int count, ThreadPool& pool) {
  static thread_local std::vector<float> memory;
  const auto floats = [](const LinearArgs& job) {
    return static_cast<size_t>(job.rows) * static_cast<size_t>(job.weight.cols + 1);
  };
  size_t all = 0;
  for (int j = 0; j < count; ++j) all += jobs[j].weight.rounded_inputs ? floats(jobs[j]) : 0;
  if (memory.size() < all) memory.resize(all);
  float* next = memory.data();
  for (int j = 0; j < count; ++j) {
    LinearArgs& job = jobs[j];
    if (!job.weight.rounded_inputs) continue;
    const size_t cols = static_cast<size_t>(job.weight.cols), size = job.rows * cols;
    RoundRowsCpu(job, next, next + size, pool);
    job.x_scales = next + size;
    job.x = {next, size};
    job.x_stride = cols;
    next += floats(job);
  }
}

float ApplyReference(Epilogue epilogue, float sum, float y) {
  switch (epilogue) {
    case Epilogue::kStore:
      return sum;
    case Epilogue::kAdd:
      return y + sum;
    case Epilogue::kReluSquare:
      return sum > 0.0f ? sum * sum : 0.0f;
    case Epilogue::kTanh:
      return std::tanh(sum);
    case Epilogue::kSigmoid:
      return 1.0f / (1.0f + std::exp(-sum));
  }
  return sum;
}

}  // namespace

size_t LinearPackedBytes(WeightFormat format, int rows, int cols) {
  return Format(format).packed_bytes(rows, cols);
}

void LinearPack(void* to, WeightFormat format, const uint16_t* bf16, int rows, int cols) {
  Format(format).pack(to, bf16, rows, cols);
}

void LinearPackCodes(void* to, WeightFormat format, const MatrixCodes& codes, int rows, int cols) {
  Format(format).pack_codes(to, codes, rows, cols);
}

float LinearUnpackRow(const Matrix& matrix, int row, float* to) {
  return Format(matrix.format).unpack_row(matrix, row, to);
}

void LinearPart(const LinearArgs& args, int first_block, int end_block, int first_row,
                int end_row) {
  Format(args.weight.format).part(args, first_block, end_block, first_row, end_row);
}

void LinearManyCpu(const LinearArgs* given, int count, ThreadPool& pool) {
  constexpr int kMostJobs = 8;
  LinearArgs jobs[kMostJobs];
  std::copy_n(given, count, jobs);
  RoundJobs(jobs, count, pool);
  int64_t work = 0;
  for (int j = 0; j < count; ++j) {
    work += static_cast<int64_t>(std::min(jobs[j].rows, kPieceRows)) * jobs[j].weight.rows *
            jobs[j].weight.cols;
  }
  Cut cuts[kMostJobs];
  int pieces = 0;
  for (int j = 0; j < count; ++j) {
    cuts[j] = CutJob(jobs[j], work, pool.threads());
    pieces += cuts[j].pieces();
  }
  pool.ParallelFor(pieces, [&](int piece) {
    int j = 0;
    while (piece >= cuts[j].pieces()) piece -= cuts[j++].pieces();
    RunPiece(jobs[j], cuts[j], piece);
  });
}

void LinearCpu(const LinearArgs& args, ThreadPool& pool) { LinearManyCpu(&args, 1, pool); }

void LinearReference(const LinearArgs& args) {
  const int cols = args.weight.cols;
  std::vector<float> weight(static_cast<size_t>(cols)), rounded(weight.size());
  for (int n = 0; n < args.weight.rows; ++n) {
    const float scale = LinearUnpackRow(args.weight, n, weight.data());
    for (int m = 0; m < args.rows; ++m) {
      const float* x = args.x.data + m * args.x_stride;
      float x_scale = 1.0f;
      if (args.weight.rounded_inputs) {
        x_scale = RoundRow(x, cols, rounded.data());
        x = rounded.data();
      }
      float sum = 0.0f;
      for (int k = 0; k < cols; ++k) sum = std::fma(x[k], weight[k], sum);
      float& y = args.y[m * args.y_stride + n];
      y = ApplyReference(args.epilogue, sum * x_scale * scale + 0.0f, y);
    }
  }
}

}  // namespace tandem
