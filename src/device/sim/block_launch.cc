// Launches of the block executor: which of the two runs them, block after block, and what begins before its predecessor
// has ended.
#include <cstring>
#include <numeric>

#include "core/strings.h"
#include "device/launch.h"
#include "device/sim/block_fibers.h"
#include "device/sim/heap.h"
#include "device/sim/random.h"

namespace cudaep::device::sim {
namespace {

BlockExecutor* current = nullptr;

// Steps of this size visit each of `total` values once.
uint64_t CoprimeStride(uint64_t random, uint64_t total) {
  uint64_t stride = random % total;
  while (std::gcd(stride, total) != 1) ++stride;
  return stride;
}

}  // namespace

// Two, so that a kernel can have begun while its predecessor runs.
std::array<BlockExecutor*, 2>& BlockExecutor::Both() {
  static std::array<BlockExecutor*, 2> both{new BlockExecutor, new BlockExecutor};  // outlive every static destructor
  return both;
}
CUDAEP_NO_TSAN BlockExecutor& BlockExecutor::Get() { return *current; }

BlockExecutor::BlockExecutor() : main_(std::make_unique<Fiber>()), warps_(new Warp[kWarps]) {}
BlockExecutor::~BlockExecutor() = default;

const char* BlockExecutor::WaitName(Wait wait) {
  constexpr const char* kNames[] = {"nothing",        "__syncthreads",     "__syncwarp",
                                    "a shuffle",      "a ballot",          "a warp's matrix operation",
                                    "a copy barrier", "GridDependencyWait"};
  return kNames[static_cast<int>(wait)];
}

void BlockExecutor::Configure(ThreadOrder order, uint64_t seed) {
  for (BlockExecutor* executor : Both()) {
    executor->order_ = order;
    executor->random_ = seed;
    if (executor->ahead_) executor->Abandon();
  }
}

Status BlockExecutor::Run(const LaunchedKernel& launch) {
  BlockExecutor* chosen = nullptr;
  for (BlockExecutor* executor : Both()) {
    if (executor->ahead_ && executor->launch_.arguments == launch.arguments) chosen = executor;
  }
  for (BlockExecutor* executor : Both()) {
    if (chosen == nullptr && !executor->ahead_) chosen = executor;
  }
  current = chosen;
  if (!chosen->ahead_) chosen->Prepare(launch);
  return chosen->RunBlocks();
}

void BlockExecutor::RunAhead(const LaunchedKernel& predecessor, const LaunchedKernel& dependent, uint64_t likeness) {
  int free = 0;
  bool begun = false;
  BlockExecutor* chosen = nullptr;
  for (BlockExecutor* executor : Both()) {
    begun = begun || (executor->ahead_ && executor->launch_.arguments == predecessor.arguments);
    if (executor->ahead_) continue;
    ++free;
    chosen = executor;
  }
  if (free < (begun ? 1 : 2)) return;
  current = chosen;
  chosen->Prepare(dependent);
  chosen->PlaceBlock(0);
  chosen->hold_ = chosen->ahead_ = true;
  chosen->BeginBlock();
  chosen->hold_ = false;
  chosen->ahead_block_ = blockIdx;
  chosen->ahead_shared_ = SharedMemory::Get().Take(dependent.kernel, likeness);
}

void BlockExecutor::Prepare(const LaunchedKernel& launch) {
  SharedMemory::Get();  // overwritten before the first block of all begins
  launch_ = launch;
  const LaunchConfig& config = *launch.config;
  gridDim = {config.grid.x, config.grid.y, config.grid.z};
  blockDim = {config.block.x, config.block.y, config.block.z};
  total_ = blockDim.x * blockDim.y * blockDim.z;
  PrepareShared(config.shared_bytes);
  blocks_ = uint64_t{gridDim.x} * gridDim.y * gridDim.z;
  if (order_ == ThreadOrder::kRandom) {
    block_shift_ = NextRandom(&random_) % blocks_;
    block_stride_ = CoprimeStride(NextRandom(&random_), blocks_);
  }
}

// What decides how much of its arrays a kernel writes, as far as a launch shows it.
uint64_t BlockExecutor::Shape() const {
  const Extent& block = launch_.config->block;
  return shared_bytes_ << 32 ^ uint64_t { block.x } << 20 ^ uint64_t { block.y } << 8 ^ block.z;
}

Status BlockExecutor::RunBlocks() {
  SharedMemory& shared = SharedMemory::Get();
  for (uint64_t i = 0; i < blocks_; ++i) {
    if (ahead_) {
      ahead_ = false;
      ResumeBlock();
    } else {
      if (i != 0) std::memset(static_cast<void*>(shared_.data()), kFreshByte, shared_bytes_);
      PlaceBlock(i);
      BeginBlock();
    }
    const bool ok = EndBlock();
    {
      Unseen unseen;
      shared.EndBlock(launch_.kernel, Shape());
    }
    if (!ok) {
      Status failed(StatusCode::kDeviceError, failure_);
      Abandon();
      return failed;
    }
  }
  return Status::Ok();
}

void BlockExecutor::PlaceBlock(uint64_t started) {
  uint64_t block = started;
  if (order_ == ThreadOrder::kReversed) block = blocks_ - 1 - started;
  if (order_ == ThreadOrder::kRandom) {
    block = static_cast<uint64_t>((static_cast<unsigned __int128>(started) * block_stride_ + block_shift_) % blocks_);
  }
  const uint64_t plane = uint64_t{gridDim.x} * gridDim.y;
  blockIdx = {static_cast<unsigned>(block % gridDim.x), static_cast<unsigned>(block % plane / gridDim.x),
              static_cast<unsigned>(block / plane)};
}

// Returns when all threads have ended or none of them can go on.
void BlockExecutor::BeginBlock() {
  Unseen unseen;
  started_ = exited_ = arrived_ = at_copy_barriers_ = 0;
  votes_ = 0;
  waited_ = false;
  const unsigned warps = (total_ + 31) / 32;
  for (unsigned i = 0; i < warps; ++i) waiting_[i] = gone_[i] = 0;
  if (total_ % 32 != 0) gone_[warps - 1] = ~0u << (total_ % 32);
  if (order_ == ThreadOrder::kRandom) {
    shift_ = static_cast<unsigned>(NextRandom(&random_) % total_);
    stride_ = static_cast<unsigned>(CoprimeStride(NextRandom(&random_), total_));
  }
  if constexpr (kThreadSanitizer) {
    while (tsan_threads_.size() < total_) tsan_threads_.push_back(TsanCreateFiber());
    main_->tsan = TsanCurrentFiber();
  }
  TsanRelease(&started_);
  Switching::To(main_.get(), TakeIdle());
  TsanAcquire(this);
}

// The predecessor has run: what waited for it goes on.
void BlockExecutor::ResumeBlock() {
  Unseen unseen;
  const LaunchConfig& config = *launch_.config;
  gridDim = {config.grid.x, config.grid.y, config.grid.z};
  blockDim = {config.block.x, config.block.y, config.block.z};
  blockIdx = ahead_block_;
  SharedMemory::Get().Put(ahead_shared_);
  ahead_shared_ = {};
  for (unsigned i = 0; i < total_; ++i) {
    Fiber* fiber = by_thread_[i];
    if (fiber == nullptr || fiber->wait != Wait::kDependency || fiber->index != i) continue;
    fiber->wait = Wait::kNone;
    ready_.Push(fiber);
  }
  if (!failure_.empty() || ready_.empty()) return;
  if constexpr (kThreadSanitizer) main_->tsan = TsanCurrentFiber();
  TsanRelease(&waited_);
  Switching::To(main_.get(), NextReady());
  TsanAcquire(this);
}

bool BlockExecutor::EndBlock() {
  Unseen unseen;
  if (failure_.empty() && exited_ != total_) failure_ = DescribeStuck();
  const CopyEngine::Error copies = copies_.Finish();
  if (failure_.empty() && copies != nullptr) failure_ = StrCat(BlockName(), ": ", copies);
  if (failure_.empty() && launch_.config->programmatic && !waited_) {
    failure_ = StrCat(BlockName(), " ends without GridDependencyWait(): so the launch may end before its predecessors");
  }
  return failure_.empty();
}

void BlockExecutor::WaitForDependency() {
  Unseen unseen;
  waited_ = true;
  if (!hold_) return;
  TsanRelease(this);  // the launch goes on without it: what it did so far is done
  Fiber* self = self_;
  by_thread_[self->index] = self;
  self->wait = Wait::kDependency;
  Park(self);
  TsanAcquire(&waited_);
}

}  // namespace cudaep::device::sim
