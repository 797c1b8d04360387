// Where the threads of a block meet: barriers, operations of a warp, copies.
#include <bit>
#include <utility>

#include "core/strings.h"
#include "device/sim/block_fibers.h"

namespace cudaep::device::sim {

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

void BlockExecutor::BulkStore(void* to, const void* value, uint64_t* barrier) {
  Unseen unseen;
  bool woken = false;
  FailIf(copies_.BulkStore(to, value, barrier, &woken));
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

}  // namespace cudaep::device::sim
