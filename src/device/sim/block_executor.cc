#include "device/sim/block_executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <boost/context/detail/fcontext.hpp>
#include <numeric>

#include "device/launch.h"
#include "device/sim/heap.h"
#include "device/sim/random.h"
#include "device/sim/sanitizers.h"

namespace cudaep::device::sim {
namespace {

namespace context = boost::context::detail;

constexpr size_t kPageBytes = 4096;
// Sanitized frames are several times larger.
constexpr size_t kStackBytes = (kAddressSanitizer || kThreadSanitizer ? 256 : 64) * 1024;

// Steps of this size visit each of `total` values once.
uint64_t CoprimeStride(uint64_t random, uint64_t total) {
  uint64_t stride = random % total;
  while (std::gcd(stride, total) != 1) ++stride;
  return stride;
}

}  // namespace

BlockExecutor::Fiber::~Fiber() {
  if (map == nullptr) return;
  UnpoisonMemory(map, map_bytes);
  munmap(map, map_bytes);
}

struct BlockExecutor::Warp {
  unsigned mask[32], ballot[32];
  Wait wait[32];
  uint8_t source[32];
  Slot value[32], result[32];
  WarpFunction compute[32];
  void* operand[32];
};

struct BlockExecutor::Switching {
  [[gnu::noinline]] static void To(Fiber* from, Fiber* to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->stack_bytes);
#endif
    TsanSwitch(to->tsan);
    Landed(context::jump_fcontext(to->context, from), from->fake_stack);
  }

  static void Landed(context::transfer_t transfer, [[maybe_unused]] void* fake_stack) {
    auto* previous = static_cast<Fiber*>(transfer.data);
    previous->context = transfer.fctx;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &previous->bottom, &previous->stack_bytes);
#endif
  }

  static void Entry(context::transfer_t transfer) {
    Unseen unseen;
    Landed(transfer, nullptr);
    BlockExecutor& block = Get();
    Fiber* self = block.entering_;
    for (;;) {
      block.self_ = self;
      block.launch_.signature->invoke(block.launch_.kernel, block.launch_.arguments, block);
      block.idle_.push_back(self);
      To(self, block.NextReady());
    }
  }
};

namespace {
BlockExecutor* current = nullptr;
}  // namespace

// Two, so that a kernel can have begun while its predecessor runs.
std::array<BlockExecutor*, 2>& BlockExecutor::Both() {
  static std::array<BlockExecutor*, 2> both{new BlockExecutor, new BlockExecutor};  // outlive every static destructor
  return both;
}
BlockExecutor& BlockExecutor::Get() { return *current; }

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

void BlockExecutor::RunAhead(const LaunchedKernel& predecessor, const LaunchedKernel& dependent) {
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
  chosen->ahead_shared_ = SharedMemory::Get().Take(dependent.kernel, chosen->Shape());
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
      std::string failure = std::move(failure_);
      Abandon();
      return Status(StatusCode::kDeviceError, std::move(failure));
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
  waited_ = true;
  if (!hold_) return;
  Unseen unseen;
  Fiber* self = self_;
  by_thread_[self->index] = self;
  self->wait = Wait::kDependency;
  Park(self);
  TsanAcquire(&waited_);
}

CUDAEP_NO_TSAN void BlockExecutor::PlaceThread(unsigned started) {
  unsigned index = started;
  if (order_ == ThreadOrder::kReversed) index = total_ - 1 - started;
  if (order_ == ThreadOrder::kRandom) {
    index = static_cast<unsigned>((uint64_t{started} * stride_ + shift_) % total_);
  }
  self_->index = index;
  threadIdx = {index % blockDim.x, index / blockDim.x % blockDim.y, index / (blockDim.x * blockDim.y)};
  if constexpr (kThreadSanitizer) {
    // Device threads that share a fiber stay different threads to TSan.
    self_->own_tsan = self_->tsan;
    TsanSwitch(self_->tsan = tsan_threads_[index]);
    TsanAcquire(&started_);
    TsanAcquire(self_);  // whoever ran on this stack before is done with it
  }
}

// Back to the fiber's own TSan identity, before any bookkeeping is touched.
CUDAEP_NO_TSAN void BlockExecutor::LeaveThread() {
  TsanRelease(this);
  TsanRelease(self_);
  TsanSwitch(self_->own_tsan);
  self_->tsan = self_->own_tsan;
}

// Threads that returned no longer count (CUDA: "all non-exited threads").
void BlockExecutor::ThreadExited(unsigned index) {
  if (arrived_ != 0 && arrived_ + exited_ == total_) OpenBarrier(nullptr);
  const unsigned warp = index / 32;
  for (unsigned lanes = waiting_[warp]; lanes != 0; lanes &= lanes - 1) {
    const unsigned mask = warps_[warp].mask[std::countr_zero(lanes)];
    if ((waiting_[warp] & mask) == (mask & ~gone_[warp])) {
      FinishWarp(warp, mask & ~gone_[warp], nullptr);
      return;
    }
  }
}

unsigned BlockExecutor::lane() const { return self_->index & 31; }

unsigned BlockExecutor::ActiveMask() const { return ~gone_[self_->index / 32]; }

void BlockExecutor::SyncBlock() { SyncBlockCount(false); }

int BlockExecutor::SyncBlockCount(bool predicate) {
  Unseen unseen;
  Fiber* self = self_;
  by_thread_[self->index] = self;
  self->wait = Wait::kBlock;
  votes_ += predicate;
  TsanRelease(&arrived_);
  if (++arrived_ + exited_ == total_) {
    OpenBarrier(self);
  } else {
    Park(self);
  }
  TsanAcquire(&arrived_);
  return vote_result_;
}

void BlockExecutor::OpenBarrier(const Fiber* self) {
  arrived_ = 0;
  vote_result_ = std::exchange(votes_, 0);
  for (unsigned i = 0; i < total_; ++i) {
    Fiber* fiber = by_thread_[i];
    if (fiber == nullptr || fiber->wait != Wait::kBlock || fiber->index != i) continue;
    fiber->wait = Wait::kNone;
    if (fiber != self) ready_.Push(fiber);
  }
}

void BlockExecutor::SyncWarp(unsigned mask) {
  Unseen unseen;
  MeetWarp(Wait::kSyncWarp, mask);
}

unsigned BlockExecutor::Ballot(unsigned mask, bool predicate) {
  Unseen unseen;
  Warp& warp = warps_[self_->index / 32];
  const unsigned lane = self_->index & 31;
  warp.value[lane].bytes[0] = predicate;
  MeetWarp(Wait::kBallot, mask);
  return warp.ballot[lane];
}

void BlockExecutor::Exchange(unsigned mask, Slot* slot, unsigned source) {
  Unseen unseen;
  Warp& warp = warps_[self_->index / 32];
  const unsigned lane = self_->index & 31;
  warp.value[lane] = *slot;
  warp.source[lane] = static_cast<uint8_t>(source);
  MeetWarp(Wait::kShuffle, mask);
  *slot = warp.result[lane];
}

void BlockExecutor::ComputeInWarp(WarpFunction compute, void* operand) {
  Unseen unseen;
  Warp& warp = warps_[self_->index / 32];
  const unsigned lane = self_->index & 31;
  warp.compute[lane] = compute;
  warp.operand[lane] = operand;
  MeetWarp(Wait::kCompute, ~0u);
}

void BlockExecutor::MeetWarp(Wait wait, unsigned mask) {
  Fiber* self = self_;
  const unsigned index = self->index / 32, lane = self->index & 31;
  if ((mask >> lane & 1) == 0) Fail(StrCat(WaitName(wait), ": the calling lane is not in its mask"));
  Warp& warp = warps_[index];
  by_thread_[self->index] = self;
  warp.wait[lane] = wait;
  warp.mask[lane] = mask;
  waiting_[index] |= 1u << lane;
  TsanRelease(&warp);
  const unsigned expected = mask & ~gone_[index];
  if ((waiting_[index] & mask) == expected) {
    FinishWarp(index, expected, self);
  } else {
    Park(self);
  }
  TsanAcquire(&warp);
}

// The last lane to arrive computes everybody's result.
void BlockExecutor::FinishWarp(unsigned index, unsigned lanes, const Fiber* self) {
  Warp& warp = warps_[index];
  const unsigned first = std::countr_zero(lanes);
  unsigned ballot = 0;
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    if (warp.wait[lane] != warp.wait[first] || warp.mask[lane] != warp.mask[first]) {
      Fail("lanes of one warp meet in different warp operations or with different masks");
    }
    if (warp.wait[first] == Wait::kBallot && warp.value[lane].bytes[0] != 0) ballot |= 1u << lane;
    if (warp.wait[first] == Wait::kCompute && warp.compute[lane] != warp.compute[first]) {
      Fail("lanes of one warp meet in different matrix operations");
    }
  }
  if (warp.wait[first] == Wait::kCompute) {
    if (lanes != ~0u) Fail("a warp's matrix operation takes all 32 lanes; some have ended or never were");
    warp.compute[first](warp.operand);
  }
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    if (warp.wait[first] == Wait::kShuffle) {
      if ((lanes >> warp.source[lane] & 1) == 0) {
        Fail(StrCat("a shuffle reads lane ", warp.source[lane], ", which takes no part in it"));
      }
      warp.result[lane] = warp.value[warp.source[lane]];
    }
    warp.ballot[lane] = ballot;
    Fiber* fiber = by_thread_[index * 32 + lane];
    if (fiber != self) hot_.Push(fiber);
  }
  waiting_[index] &= ~lanes;
}

// ---- Copies -----------------------------------------------------------------------------------------------------

void BlockExecutor::FailIf(CopyEngine::Error error) {
  if (error != nullptr) Fail(error);
}

void BlockExecutor::CopyAsync(void* to, const void* from, unsigned bytes, unsigned valid) {
  Unseen unseen;
  FailIf(copies_.Copy(self_->index, to, from, bytes, valid));
}

void BlockExecutor::CommitCopies() {
  Unseen unseen;
  copies_.Commit(self_->index);
}

void BlockExecutor::WaitForCopies(unsigned pending) {
  Unseen unseen;
  copies_.Wait(self_->index, pending);
}

void BlockExecutor::InitBarrier(uint64_t* barrier, unsigned arrivals) {
  Unseen unseen;
  FailIf(copies_.Init(barrier, arrivals));
  TsanRelease(barrier);
}

void BlockExecutor::ArriveAtBarrier(uint64_t* barrier, unsigned bytes) {
  Unseen unseen;
  TsanRelease(barrier);
  bool woken = false;
  FailIf(copies_.Arrive(barrier, bytes, &woken));
  if (woken) WakeAtBarrier(barrier);
}

void BlockExecutor::ArriveAfterCopies(uint64_t* barrier) {
  Unseen unseen;
  TsanRelease(barrier);
  bool woken = false;
  FailIf(copies_.ArriveAfterCopies(barrier, self_->index, &woken));
  if (woken) WakeAtBarrier(barrier);
}

void BlockExecutor::BulkCopy(void* to, const void* from, unsigned bytes, uint64_t* barrier) {
  Unseen unseen;
  bool woken = false;
  FailIf(copies_.BulkCopy(to, from, bytes, barrier, &woken));
  if (woken) WakeAtBarrier(barrier);
}

void BlockExecutor::WaitAtBarrier(uint64_t* barrier, unsigned parity) {
  Unseen unseen;
  Fiber* self = self_;
  for (bool over = false;;) {
    FailIf(copies_.Poll(barrier, parity, &over));
    if (over) break;
    by_thread_[self->index] = self;
    self->wait = Wait::kCopyBarrier;
    self->barrier = barrier;
    ++at_copy_barriers_;
    Park(self);
  }
  TsanAcquire(barrier);
}

void BlockExecutor::WakeAtBarrier(const uint64_t* barrier) {
  for (unsigned i = 0; i < total_ && at_copy_barriers_ != 0; ++i) {
    Fiber* fiber = by_thread_[i];
    if (fiber == nullptr || fiber->wait != Wait::kCopyBarrier || fiber->index != i) continue;
    if (fiber->barrier != barrier) continue;
    fiber->wait = Wait::kNone;
    --at_copy_barriers_;
    ready_.Push(fiber);
  }
}

BlockExecutor::Fiber* BlockExecutor::NextReady() {
  if (!hot_.empty()) return hot_.Pop();
  if (!ready_.empty()) return ready_.Pop();
  return main_.get();
}

void BlockExecutor::Park(Fiber* self) {
  self->thread = threadIdx;
  const bool others = !hot_.empty() || !ready_.empty();
  Switching::To(self, !others && started_ < total_ ? TakeIdle() : NextReady());
  self_ = self;
  threadIdx = self->thread;
}

BlockExecutor::Fiber* BlockExecutor::TakeIdle() {
  if (idle_.empty()) {
    fibers_.push_back(MakeFiber());
    idle_.push_back(fibers_.back().get());
  }
  entering_ = idle_.back();
  idle_.pop_back();
  return entering_;
}

std::unique_ptr<BlockExecutor::Fiber> BlockExecutor::MakeFiber() {
  auto fiber = std::make_unique<Fiber>();
  // A guard page below the stack, and another cache colour for each stack's top.
  fiber->map_bytes = kStackBytes + 2 * kPageBytes;
  fiber->map =
      mmap(nullptr, fiber->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mprotect(fiber->map, kPageBytes, PROT_NONE);
  fiber->bottom = static_cast<std::byte*>(fiber->map) + kPageBytes;
  fiber->stack_bytes = kStackBytes + (fibers_.size() * 5 % 64) * 64;
  void* top = static_cast<std::byte*>(const_cast<void*>(fiber->bottom)) + fiber->stack_bytes;
  fiber->context = context::make_fcontext(top, fiber->stack_bytes, &Switching::Entry);
  if constexpr (kThreadSanitizer) fiber->tsan = TsanCreateFiber();
  return fiber;
}

void BlockExecutor::PrepareShared(size_t bytes) {
  shared_bytes_ = bytes;
  UnpoisonMemory(shared_.data(), shared_.size() * sizeof(Slot));
  const size_t slots = std::max<size_t>(1, (bytes + sizeof(Slot) - 1) / sizeof(Slot));
  if (shared_.size() < slots) shared_.resize(slots);
  std::memset(static_cast<void*>(shared_.data()), 0xff, slots * sizeof(Slot));
  PoisonMemory(reinterpret_cast<std::byte*>(shared_.data()) + bytes, shared_.size() * sizeof(Slot) - bytes);
}

void BlockExecutor::Fail(std::string reason) {
  Unseen unseen;
  // Nothing may be left to destroy: control does not come back.
  if (failure_.empty()) failure_ = StrCat(Where(), ": ", reason);
  std::string().swap(reason);
  TsanRelease(this);
  Switching::To(self_, main_.get());
  __builtin_unreachable();
}

// Fibers stuck inside a kernel are dropped with their stacks; the next block starts with new ones.
void BlockExecutor::Abandon() {
  failure_.clear();
  ahead_ = false;
  idle_.clear();
  hot_.head = hot_.tail = ready_.head = ready_.tail = 0;
  by_thread_.fill(nullptr);
  if constexpr (kThreadSanitizer) {
    // What the stuck threads did precedes what follows.
    TsanAcquire(&arrived_);
    for (unsigned i = 0; i < kWarps; ++i) TsanAcquire(&warps_[i]);
    // TSan cannot destroy a fiber that ignores accesses: leaked, with its stack.
    for (auto& fiber : fibers_) static_cast<void>(fiber.release());
    tsan_threads_.clear();
  }
  fibers_.clear();
}

std::string BlockExecutor::BlockName() const {
  return StrCat("block (", blockIdx.x, ",", blockIdx.y, ",", blockIdx.z, ")");
}

std::string BlockExecutor::Where() const {
  return StrCat(BlockName(), " thread (", threadIdx.x, ",", threadIdx.y, ",", threadIdx.z, ")");
}

std::string BlockExecutor::DescribeStuck() const {
  std::string text = StrCat("deadlock in ", BlockName(), ": no thread can go on");
  int shown = 0;
  for (unsigned i = 0; i < total_ && shown < 4; ++i) {
    const unsigned warp = i / 32, lane = i & 31;
    const Fiber* fiber = by_thread_[i];
    const bool in_warp_operation = waiting_[warp] >> lane & 1;
    const bool parked = fiber != nullptr && fiber->index == i && fiber->wait != Wait::kNone;
    if (!in_warp_operation && !parked) continue;
    // One example of each kind of wait is enough to see the mistake.
    const Wait wait = in_warp_operation ? warps_[warp].wait[lane] : fiber->wait;
    const std::string kind = StrCat("in ", WaitName(wait));
    if (text.find(kind) != std::string::npos) continue;
    text += StrCat("; thread ", i, " waits ", kind);
    ++shown;
  }
  return text;
}

}  // namespace cudaep::device::sim
