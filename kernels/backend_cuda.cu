#include <algorithm>

#include "kernels/accept/accept_cuda.h"
#include "kernels/attend/attend_cuda.h"
#include "kernels/backend_cuda.h"
#include "kernels/channel_mix_key/channel_mix_key_cuda.h"
#include "kernels/channel_mix_value/channel_mix_value_cuda.h"
#include "kernels/copies_cuda.h"
#include "kernels/draft_exchange/draft_exchange_cuda.h"
#include "kernels/draft_fuse/draft_fuse_cuda.h"
#include "kernels/draft_head/draft_head_cuda.h"
#include "kernels/draft_mix/draft_mix_cuda.h"
#include "kernels/embed/embed_cuda.h"
#include "kernels/graphs_cuda.h"
#include "kernels/head/head_cuda.h"
#include "kernels/launch_cuda.cuh"
#include "kernels/linear/gemm_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/quantize.h"
#include "kernels/linear/round_rows_cuda.h"
#include "kernels/linear/scratch_cuda.h"
#include "kernels/memory_cuda.h"
#include "kernels/random/random_cuda.h"
#include "kernels/replay/replay_cuda.h"
#include "kernels/time_mix_core/time_mix_core_cuda.h"
#include "kernels/time_mix_in/time_mix_in_cuda.h"
#include "kernels/time_mix_out/time_mix_out_cuda.h"
#include "kernels/words_cuda.h"

namespace tandem {
namespace {

// What only the host can see going wrong: a caller breaks a promise of Backend.
void Require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "CUDA backend: %s\n", promise);
  std::abort();
}

// Enqueues everything on one stream, which knows nothing of the default stream.
class BackendCuda final : public Backend {
 public:
  // gemm: null for a batch-invariant one.
  BackendCuda(cudaStream_t stream, const CudaDevice& device, int most_graphs,
              std::unique_ptr<GemmCuda> gemm)
      : ordinal_(device.ordinal),
        stream_(stream),
        gemm_(std::move(gemm)),
        device_({.stream = stream,
                 .multiprocessors = device.multiprocessors,
                 .linear = &linear_,
                 .gemm = gemm_.get()}),
        memory_(stream),
        copies_(stream),
        graphs_(stream, std::max(most_graphs, 1)),
        words_(stream) {}
  ~BackendCuda() override;

  const char* name() const override { return "cuda"; }
  int threads() const override { return device_.multiprocessors; }

  void* Allocate(size_t bytes) override { return Idle().memory_.Allocate(bytes); }
  std::optional<size_t> FreeBytes() const override;
  void* AllocateExported(size_t bytes, ExportHandle* handle) override {
    return Idle().memory_.AllocateExported(bytes, handle);
  }
  bool SealForReaders(const ExportHandle& handle) override { return handle.bytes > 0; }
  void* Import(const ExportHandle& handle, bool) override { return Idle().memory_.Import(handle); }
  void Unimport(void* memory) override {
    Wait();
    memory_.Unimport(memory);
  }

  void CopyIn(void* to, const void* from, size_t bytes) override {
    Idle().copies_.In(to, from, bytes);
  }
  void CopyOut(void* to, const void* from, size_t bytes) override {
    Idle().copies_.Out(to, from, bytes);
  }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0)
      CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, Here().stream));
  }
  void Zero(void* to, size_t bytes) override {
    if (bytes > 0) CUDA_CHECK(cudaMemsetAsync(to, 0, bytes, Here().stream));
  }
  void Wait() override { Idle().copies_.Finish(); }

  bool has_words() const override { return words_.supported(); }
  void WaitWord(uint32_t* word, uint32_t value) override { Idle().words_.Wait(word, value); }
  void WriteWord(uint32_t* word, uint32_t value) override { Idle().words_.Write(word, value); }
  bool ReleaseWait() override {
    Here();
    return words_.Release();
  }
  void Stamp(uint64_t* to) override { StampCuda(to, Here()); }

  void RunRecorded(const GraphKey& key, const std::function<void()>& enqueue) override {
    Idle().graphs_.Run(key, enqueue);
  }
  bool records() const override { return true; }
  GraphCounts graph_counts() const override { return graphs_.counts(); }

  size_t PackedBytes(const Matrix& shape) const override { return LinearPackedBytesCuda(shape); }
  bool ReserveLinear(const LinearReserve& most) override;
  size_t LinearBytes(const LinearReserve& most, const Matrix& largest) const override {
    return Total(
        Measure(most, largest.rounded_inputs, largest.rows, GemmCuda::WeightBytes(largest)));
  }
  bool Pack(void* to, const Matrix& shape, const uint16_t* bf16) override {
    return PackStaged(to, shape, [&](uint16_t* staged, size_t count) {
      copies_.In(staged, bf16, count * sizeof(uint16_t));
    });
  }
  bool PackCodes(void* to, const Matrix& shape, const MatrixCodes& codes) override;
  void FillRandom(float* to, size_t count, const RandomFill& fill) override {
    FillRandomCuda(to, count, fill, Here());
  }
  bool PackRandom(void* to, const Matrix& shape, const RandomFill& fill) override {
    return PackStaged(to, shape, [&](uint16_t* staged, size_t count) {
      FillRandomBf16Cuda(staged, count, fill, device_);
    });
  }

  void Embed(const EmbedArgs& args) override { EmbedCuda(args, Here()); }
  void TimeMixIn(const TimeMixInArgs& args) override { TimeMixInCuda(args, Here()); }
  void TimeMixCore(const TimeMixCoreArgs& args) override { TimeMixCoreCuda(args, Here()); }
  void TimeMixOut(const TimeMixOutArgs& args) override { TimeMixOutCuda(args, Here()); }
  void ChannelMixKey(const ChannelMixKeyArgs& args) override { ChannelMixKeyCuda(args, Here()); }
  void ChannelMixValue(const ChannelMixValueArgs& args) override {
    ChannelMixValueCuda(args, Here());
  }
  void Replay(const ReplayArgs& args) override { ReplayCuda(args, Here()); }
  void Head(const HeadArgs& args) override { HeadCuda(args, Here()); }
  void Linear(const LinearArgs& args) override { LinearCuda(args, Here()); }
  void Accept(const AcceptArgs& args) override { AcceptCuda(args, Here()); }
  void DraftFuse(const DraftFuseArgs& args) override { DraftFuseCuda(args, Here()); }
  void Attend(const AttendArgs& args) override { AttendCuda(args, Here()); }
  void DraftMix(const DraftMixArgs& args) override { DraftMixCuda(args, Here()); }
  void DraftHead(const DraftHeadArgs& args) override { DraftHeadCuda(args, Here()); }
  void DraftTake(const DraftTakeArgs& args) override { DraftTakeCuda(args, Here()); }
  void DraftPublish(const DraftPublishArgs& args) override { DraftPublishCuda(args, Here()); }
  void DraftResolve(const DraftResolveArgs& args) override { DraftResolveCuda(args, Here()); }
  void DraftAnswer(const DraftAnswerArgs& args) override { DraftAnswerCuda(args, Here()); }

 private:
  // The device of a host thread is its own; a backend may be made by one thread and used by
  // another.
  const DeviceCuda& Here() const {
    thread_local int current = -1;
    if (current != ordinal_) CUDA_CHECK(cudaSetDevice(ordinal_));
    current = ordinal_;
    return device_;
  }
  // For what cannot be recorded.
  BackendCuda& Idle() {
    Here();
    Require(!graphs_.recording(), "only ops, Copy and Zero can be recorded");
    return *this;
  }

  // Packs what `fill` enqueues into [count] bf16 of device memory that is there for the while.
  bool PackStaged(void* to, const Matrix& shape,
                  const std::function<void(uint16_t*, size_t)>& fill);

  const int ordinal_;
  const cudaStream_t stream_;
  // Of every matrix that is packed, for ReserveLinear.
  void Know(const Matrix& shape) {
    rounded_inputs_ = rounded_inputs_ || shape.rounded_inputs;
    most_outputs_ = std::max(most_outputs_, shape.rows);
    most_weight_bytes_ = std::max(most_weight_bytes_, GemmCuda::WeightBytes(shape));
  }
  // Bytes of what linear ops use beside their arguments.
  struct LinearSizes {
    size_t rows = 0, weights = 0, sums = 0, workspace = 0;
  };
  LinearSizes Measure(const LinearReserve& most, bool rounded_inputs, int outputs,
                      size_t weight_bytes) const;
  static size_t Total(const LinearSizes& sizes) {
    return sizes.rows + sizes.weights + sizes.sums + sizes.workspace;
  }
  // Memory of at least that size in `scratch`; what is outgrown stays, for graphs that use it.
  bool Grow(ScratchCuda& scratch, size_t bytes);

  LinearScratchCuda linear_;
  const std::unique_ptr<GemmCuda> gemm_;
  GemmCuda::Memory gemm_memory_;
  bool rounded_inputs_ = false;
  int most_outputs_ = 0;
  size_t most_weight_bytes_ = 0;
  const DeviceCuda device_;
  MemoryCuda memory_;
  CopiesCuda copies_;
  GraphsCuda graphs_;
  WordsCuda words_;
};

BackendCuda::~BackendCuda() {
  (void)cudaSetDevice(ordinal_);
  (void)cudaStreamSynchronize(stream_);
  (void)cudaStreamDestroy(stream_);
}

std::optional<size_t> BackendCuda::FreeBytes() const {
  Here();
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

bool BackendCuda::PackStaged(void* to, const Matrix& shape,
                             const std::function<void(uint16_t*, size_t)>& fill) {
  const size_t count = static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.cols);
  Idle();
  Know(shape);
  return MemoryCuda::WithScratch(count * sizeof(uint16_t), [&](uint8_t* scratch) {
    auto* const staged = reinterpret_cast<uint16_t*>(scratch);
    fill(staged, count);
    LinearPackCuda(to, shape, staged, device_);
    CUDA_CHECK(cudaStreamSynchronize(stream_));
  });
}

bool BackendCuda::PackCodes(void* to, const Matrix& shape, const MatrixCodes& codes) {
  const size_t rows = static_cast<size_t>(shape.rows), cols = static_cast<size_t>(shape.cols);
  Know(shape);
  const bool grouped = shape.format == WeightFormat::kInt6;
  const void* const scales = grouped ? static_cast<const void*>(codes.group_scales) : codes.scales;
  const size_t scale_bytes = grouped ? rows * ((cols + kInt6Group - 1) / kInt6Group) * 2 : rows * 4;
  Idle();
  // The scales first: they are aligned.
  return MemoryCuda::WithScratch(scale_bytes + rows * cols, [&](uint8_t* staged) {
    copies_.In(staged, scales, scale_bytes);
    copies_.In(staged + scale_bytes, codes.codes, rows * cols);
    LinearPackCodesCuda(to, shape,
                        {.codes = staged + scale_bytes,
                         .scales = reinterpret_cast<const float*>(staged),
                         .group_scales = reinterpret_cast<const uint16_t*>(staged)},
                        device_);
    CUDA_CHECK(cudaStreamSynchronize(stream_));
  });
}

bool BackendCuda::Grow(ScratchCuda& scratch, size_t bytes) {
  if (bytes <= scratch.bytes) return true;
  void* const memory = Allocate(bytes);
  if (memory == nullptr) return false;
  scratch = {static_cast<uint8_t*>(memory), bytes};
  return true;
}

BackendCuda::LinearSizes BackendCuda::Measure(const LinearReserve& most, bool rounded_inputs,
                                              int outputs, size_t weight_bytes) const {
  LinearSizes sizes;
  if (rounded_inputs || gemm_ != nullptr) sizes.rows = RoundedRowsBytes(most.rows, most.inputs);
  if (gemm_ == nullptr || most.rows <= kMostInvariantRows) return sizes;
  sizes.weights = weight_bytes;
  sizes.sums = GemmCuda::SumBytes(most.rows, outputs);
  sizes.workspace = CublasLt::kWorkspaceBytes;
  return sizes;
}

bool BackendCuda::ReserveLinear(const LinearReserve& most) {
  const LinearSizes sizes = Measure(most, rounded_inputs_, most_outputs_, most_weight_bytes_);
  const bool grown = Grow(linear_.rows, sizes.rows) && Grow(gemm_memory_.weights, sizes.weights) &&
                     Grow(gemm_memory_.sums, sizes.sums) &&
                     Grow(gemm_memory_.workspace, sizes.workspace);
  if (gemm_ != nullptr) gemm_->Use(gemm_memory_);
  return grown;
}

// Exists to ask whether there is code for the device.
__global__ void ProbeKernel() {}

std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  return text;
}

bool MpsActive(int ordinal) {
  int active = 0;
  const cudaError_t error = cudaDeviceGetAttribute(&active, cudaDevAttrMpsEnabled, ordinal);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error == cudaSuccess && active != 0;
}

CudaDevice Describe(int ordinal, const cudaDeviceProp& properties) {
  return {.ordinal = ordinal,
          .name = properties.name,
          .uuid = UuidText(properties.uuid),
          .compute_major = properties.major,
          .compute_minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .l2_bytes = static_cast<size_t>(properties.l2CacheSize),
          .memory_bytes = properties.totalGlobalMem,
          .mps = MpsActive(ordinal)};
}

CudaStart Refuse(const CudaDevice& device, const std::string& what, cudaError_t error) {
  (void)cudaGetLastError();
  return {.device = device, .refused = what + ": " + cudaGetErrorString(error)};
}

// Thread block clusters and programmatic launches.
constexpr int kLeastComputeMajor = 9;

CudaStart RefuseOldArchitecture(const CudaDevice& device) {
  return {.device = device,
          .refused = device.name + " has compute capability " +
                     std::to_string(device.compute_major) + "." +
                     std::to_string(device.compute_minor) + ", but the kernels need " +
                     std::to_string(kLeastComputeMajor) +
                     ".0 or later (thread block clusters); use --backend=cpu"};
}

CudaStart RefuseArchitecture(const CudaDevice& device) {
  return {.device = device,
          .refused =
              device.name + " has compute capability " + std::to_string(device.compute_major) +
              "." + std::to_string(device.compute_minor) + ", but this tandem holds code for " +
              TANDEM_CUDA_ARCHITECTURES + " only; configure it with -DTANDEM_CUDA_ARCHITECTURES=" +
              std::to_string(device.compute_major * 10 + device.compute_minor)};
}

}  // namespace

CudaStart MakeCudaBackend(const CudaOptions& options) {
  // A queue that waits for a word must not stop another one that shares its connection. Read when
  // the process first uses the device.
  static const int connections = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  (void)connections;
  CudaDevice device{.ordinal = options.device};
  int count = 0, driver = 0;
  cudaError_t error = cudaDriverGetVersion(&driver);
  if (error == cudaSuccess && driver == 0)
    return {.device = device, .refused = "no NVIDIA driver is installed"};
  if (error == cudaSuccess) error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return Refuse(device, "no CUDA device can be used", error);
  if (options.device < 0 || options.device >= count) {
    return {.device = device,
            .refused = "there is no CUDA device " + std::to_string(options.device) + ": " +
                       std::to_string(count) + " visible, counted from 0"};
  }
  cudaDeviceProp properties;
  error = cudaGetDeviceProperties(&properties, options.device);
  if (error != cudaSuccess)
    return Refuse(device, "the properties of CUDA device " + std::to_string(options.device), error);
  device = Describe(options.device, properties);
  if (device.compute_major < kLeastComputeMajor) return RefuseOldArchitecture(device);
  error = cudaSetDevice(options.device);
  size_t total = 0;
  if (error == cudaSuccess) error = cudaMemGetInfo(&device.free_memory_bytes, &total);
  if (error != cudaSuccess) return Refuse(device, device.name + " cannot be used", error);

  cudaFuncAttributes attributes;
  error = cudaFuncGetAttributes(&attributes, ProbeKernel);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    (void)cudaGetLastError();
    return RefuseArchitecture(device);
  }
  cudaStream_t stream = nullptr;
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return Refuse(device, device.name + " cannot be used", error);
  std::unique_ptr<GemmCuda> gemm;
  if (!options.batch_invariant) {
    std::string refused;
    std::unique_ptr<CublasLt> library = CublasLt::Load(&refused);
    if (library == nullptr) {
      (void)cudaStreamDestroy(stream);
      return {.device = device, .refused = refused + "; --batch-invariant needs no cuBLASLt"};
    }
    gemm = std::make_unique<GemmCuda>(std::move(library));
  }
  return {.backend =
              std::make_unique<BackendCuda>(stream, device, options.most_graphs, std::move(gemm)),
          .device = device};
}

}  // namespace tandem
