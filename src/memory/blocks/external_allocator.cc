#include "memory/blocks/external_allocator.h"

#include <exception>
#include <utility>

#include "core/log.h"
#include "memory/capture_gate.h"
#include "memory/relaxed_capture.h"

namespace cudaep::memory {
namespace {

// Runs a callback of the caller's. What it threw, as text; empty when it returned.
template <class F>
std::string Caught(F&& call) {
  try {
    call();
    return {};
  } catch (const std::exception& error) {
    return StrCat("it threw: ", error.what());
  } catch (...) {
    return "it threw an unknown exception";
  }
}

}  // namespace

Result<std::unique_ptr<ExternalAllocator>> ExternalAllocator::Create(int ordinal, const ExternalCallbacks& callbacks,
                                                                     std::shared_ptr<Budget> budget) {
  if (callbacks.alloc == nullptr || callbacks.free == nullptr) {
    return InvalidArgument("an external allocator needs both functions, alloc and free; ",
                           callbacks.alloc == nullptr ? "alloc" : "free", " is missing");
  }
  return std::unique_ptr<ExternalAllocator>(new ExternalAllocator(ordinal, callbacks, std::move(budget)));
}

ExternalAllocator::~ExternalAllocator() {
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  GiveBack(WaitForHeld());
  std::vector<HeldBlock> rest = held_.TakeAll();
  live_.ForEach([&](void* pointer, const Block& block) { rest.push_back({pointer, block, {}}); });
  // Nobody says what uses these: memory that was never freed, and what a capture has recorded.
  if (!rest.empty()) SynchronizeDevice().IgnoreError();
  GiveBack(rest);
}

Result<void*> ExternalAllocator::Serve(Block block) {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  std::vector<HeldBlock> done;
  {
    std::lock_guard lock(mutex_);
    CUDAEP_ASSIGN_OR_RETURN(void* held, FromHeld(block.bytes, &block));
    if (held != nullptr) return held;
    done = held_.TakeAllPast(progress_);
  }
  GiveBack(done);
  CUDAEP_ASSIGN_OR_RETURN(void* pointer, FromCaller(block.bytes));
  if (Status status = OrderAfterCaller(block); !status.ok()) {
    GiveBack({{pointer, block, {}}});
    return status;
  }
  std::lock_guard lock(mutex_);
  live_.Insert(pointer, block);
  return pointer;
}

Result<void*> ExternalAllocator::FromHeld(size_t bytes, Block* block) {
  if (block->owner == BlockOwner::kStream) {
    progress_.Add(block->stream);
    block->captured = IsCapturing(block->stream);
  }
  const std::optional<HeldBlock> held = held_.TakeFor(bytes, block, &progress_);
  if (held) {
    live_.Insert(held->pointer, *block);
    return held->pointer;
  }
  if (!block->captured) return nullptr;
  return FailedPrecondition("allocation of ", bytes,
                            " bytes on a capturing stream that holds no freed block as large: ",
                            "the external allocator cannot be asked during a capture");
}

Result<void*> ExternalAllocator::FromCaller(size_t bytes) {
  const auto take = [&]() -> Result<void*> {
    CUDAEP_RETURN_IF_ERROR(source_.Charge(bytes));
    Result<void*> pointer = CallAlloc(bytes);
    if (!pointer.ok()) source_.Release(bytes);
    return pointer;
  };
  Result<void*> pointer = take();
  if (pointer.status().code() == StatusCode::kOutOfMemory) {
    const std::vector<HeldBlock> done = WaitForHeld();
    GiveBack(done);
    if (!done.empty()) pointer = take();
  }
  if (!pointer.ok()) return pointer;
  std::lock_guard lock(mutex_);
  live_.stats.CountTaken(bytes);
  return pointer;
}

Result<void*> ExternalAllocator::CallAlloc(size_t bytes) {
  void* pointer = nullptr;
  if (std::string error = Caught([&] { pointer = callbacks_.alloc(bytes); }); !error.empty()) {
    return OutOfMemory("the external allocator gave nothing; ", error);
  }
  if (pointer == nullptr) return OutOfMemory("the external allocator gave nothing; it returned null");
  if (Status status = Check(pointer); !status.ok()) {
    CallFree(pointer);
    return status;
  }
  return pointer;
}

Status ExternalAllocator::Check(void* pointer) const {
  if (reinterpret_cast<uintptr_t>(pointer) % kAlignmentBytes != 0) {
    return InvalidArgument("the external allocator returned ", pointer, ", which is not aligned to ", kAlignmentBytes,
                           " bytes");
  }
  device::PointerInfo info;
  CUDAEP_RETURN_IF_ERROR(device::GetPointerInfo(pointer, &info));
  const bool device = info.kind == device::PointerKind::kDevice || info.kind == device::PointerKind::kManaged;
  if (device && info.ordinal == source_.ordinal) return Status::Ok();
  return InvalidArgument("the external allocator returned ", pointer, ", which is not memory of CUDA device ",
                         source_.ordinal);
}

bool ExternalAllocator::IsCallerStream(device::Stream stream) const {
  const auto plain = [](device::Stream any) { return any == device::kLegacyStream ? nullptr : any; };
  return plain(stream) == plain(callbacks_.caller_stream);
}

Status ExternalAllocator::OrderAfterCaller(const Block& block) {
  const device::Stream caller = callbacks_.caller_stream;
  if (block.owner == BlockOwner::kStream && IsCallerStream(block.stream)) return Status::Ok();
  if (IsCapturing(caller)) {
    return FailedPrecondition("allocation of ", block.bytes,
                              " bytes: memory of the external allocator cannot be ordered after the caller's stream ",
                              "while that is capturing");
  }
  if (block.owner == BlockOwner::kStream) {
    CUDAEP_RETURN_IF_ERROR(StreamProgress::Order(block.stream, caller));
    std::lock_guard lock(mutex_);
    ++live_.stats.stream_waits;
    return Status::Ok();
  }
  device::UniqueEvent event;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly));
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(event.get(), caller));
  return device::EventSynchronize(event.get());
}

void ExternalAllocator::Free(void* pointer) {
  if (pointer == nullptr) return;
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  std::vector<HeldBlock> done;
  {
    std::lock_guard lock(mutex_);
    const std::optional<Block> removed = live_.Remove(pointer);
    if (!removed) return;
    HeldBlock held{pointer, *removed, {}};
    bool capturing = false;
    if (held.block.owner == BlockOwner::kStream) {
      const device::Stream stream = held.block.stream;
      capturing = IsCapturing(stream);
      held.block.captured = held.block.captured || capturing;
      // The caller's allocator reuses a block of its own stream in order, whatever still runs.
      if (!held.block.captured && !IsCallerStream(stream)) held.points.push_back(progress_.Mark(stream));
    } else if (held.block.owner != BlockOwner::kNobody) {
      held.points = progress_.MarkAll();
    }
    held_.Add(std::move(held));
    if (capturing) return;
    progress_.Poll();
    done = held_.TakeAllPast(progress_);
  }
  GiveBack(done);
}

void ExternalAllocator::AddStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  progress_.Add(stream);
}

void ExternalAllocator::ReleaseStream(device::Stream stream) {
  std::vector<HeldBlock> done;
  {
    std::lock_guard lock(mutex_);
    live_.ReleaseStream(stream);
    held_.ReleaseStream(stream);
    progress_.Release(stream);
    done = held_.TakeAllPast(progress_);
  }
  GiveBack(done);
}

StreamMark ExternalAllocator::Mark(device::Stream stream) {
  std::lock_guard lock(mutex_);
  return progress_.Now(stream);
}

void ExternalAllocator::Reached(const StreamMark& mark) {
  std::vector<HeldBlock> done;
  {
    std::lock_guard lock(mutex_);
    progress_.Reached(mark);
    done = held_.TakeAllPast(progress_);
  }
  GiveBack(done);
}

std::vector<HeldBlock> ExternalAllocator::WaitForHeld() {
  std::unique_lock lock(mutex_);
  const auto events = progress_.Pending();
  lock.unlock();
  StreamProgress::Wait(events).IgnoreError();  // Poll finds out what was reached
  lock.lock();
  progress_.Poll();
  return held_.TakeAllPast(progress_);
}

void ExternalAllocator::CallFree(void* pointer) {
  const std::string error = Caught([&] { callbacks_.free(pointer); });
  if (!error.empty()) Log(LogLevel::kError, "the external allocator did not take ", pointer, " back: ", error);
}

void ExternalAllocator::GiveBack(const std::vector<HeldBlock>& blocks) {
  if (blocks.empty()) return;
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  for (const HeldBlock& held : blocks) CallFree(held.pointer);
  std::lock_guard lock(mutex_);
  for (const HeldBlock& held : blocks) {
    live_.stats.CountGiven(held.block.bytes);
    source_.Release(held.block.bytes);
  }
}

Status ExternalAllocator::Shrink() {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  GiveBack(WaitForHeld());
  {
    std::lock_guard lock(mutex_);
    ++live_.stats.shrinks;
  }
  if (callbacks_.empty_cache == nullptr) return Status::Ok();
  // With the zeros that a newer PyTorch takes for its pool identifier; see the header.
  const auto empty = reinterpret_cast<void (*)(uint64_t, uint64_t)>(callbacks_.empty_cache);
  const std::string error = Caught([&] { empty(0, 0); });
  if (!error.empty()) Log(LogLevel::kError, "the external allocator's empty_cache failed: ", error);
  return Status::Ok();
}

AllocatorStats ExternalAllocator::Stats() const {
  std::lock_guard lock(mutex_);
  AllocatorStats stats = live_.stats;
  if (source_.budget != nullptr) stats.limit_bytes = static_cast<int64_t>(source_.budget->limit_bytes());
  return stats;
}

}  // namespace cudaep::memory
