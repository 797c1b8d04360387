// The fibers on which the threads of a block run, and what is said of one that cannot go on.
#include "device/sim/block_executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "core/strings.h"
#include "device/sim/block_fibers.h"

namespace cudaep::device::sim {
namespace {

constexpr size_t kPageBytes = 4096;
// Sanitized frames are several times larger.
constexpr size_t kStackBytes = (kAddressSanitizer || kThreadSanitizer ? 256 : 64) * 1024;

}  // namespace

BlockExecutor::Fiber::~Fiber() {
  if (map == nullptr) return;
  UnpoisonMemory(map, map_bytes);
  munmap(map, map_bytes);
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
