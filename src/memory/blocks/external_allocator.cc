#include "memory/blocks/external_allocator.h"

#include <exception>
#include <utility>

#include "core/log.h"
#include "core/strings.h"
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

Result<void*> ExternalAllocator::Serve(Block* block, const device::Stream* stream) {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  CUDAEP_ASSIGN_OR_RETURN(void* held, FromHeld(block, stream, "the external allocator"));
  if (held != nullptr) return held;
  Result<void*> pointer = FromCaller(block->bytes);
  if (pointer.status().code() == StatusCode::kOutOfMemory) {
    Result<bool> more = WaitForFreed();
    if (more.ok() && *more) pointer = FromCaller(block->bytes);
  }
  CUDAEP_RETURN_IF_ERROR(pointer.status());
  Status ordered = OrderAfterCaller(block->bytes, stream);
  if (ordered.ok()) return pointer;
  Held refused{*pointer, *block, {}};
  GiveBack({&refused, 1});
  return ordered;
}

Result<void*> ExternalAllocator::FromCaller(size_t bytes) {
  CUDAEP_RETURN_IF_ERROR(source_.Charge(bytes));
  Result<void*> pointer = CallAlloc(bytes);
  if (!pointer.ok()) {
    source_.Release(bytes);
    return pointer;
  }
  Lock lock(mutex_);
  stats_.CountTaken(bytes);
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

Status ExternalAllocator::OrderAfterCaller(size_t bytes, const device::Stream* stream) {
  const device::Stream caller = callbacks_.caller_stream;
  if (stream != nullptr && IsCallerStream(*stream)) return Status::Ok();
  if (IsCapturing(caller)) {
    return FailedPrecondition("allocation of ", bytes,
                              " bytes: memory of the external allocator cannot be ordered after the caller's stream ",
                              "while that is capturing");
  }
  if (stream != nullptr) {
    CUDAEP_RETURN_IF_ERROR(StreamOrder::OrderStreams(*stream, caller));
    Lock lock(mutex_);
    ++stats_.stream_waits;
    return Status::Ok();
  }
  device::UniqueEvent event;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly));
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(event.get(), caller));
  return device::EventSynchronize(event.get());
}

// The caller's allocator reuses a block of its own stream in order, whatever still runs.
ExternalAllocator::After ExternalAllocator::Freed(void*, const Block&, device::Stream stream) {
  return IsCallerStream(stream) ? After::kNothing : After::kStream;
}

void ExternalAllocator::CallFree(void* pointer) {
  const std::string error = Caught([&] { callbacks_.free(pointer); });
  if (!error.empty()) Log(LogLevel::kError, "the external allocator did not take ", pointer, " back: ", error);
}

void ExternalAllocator::GiveBack(std::span<Held> blocks) {
  for (const Held& held : blocks) CallFree(held.pointer);
  Lock lock(mutex_);
  for (const Held& held : blocks) {
    stats_.CountGiven(held.block.bytes);
    source_.Release(held.block.bytes);
  }
}

Status ExternalAllocator::Trim() {
  if (callbacks_.empty_cache == nullptr) return Status::Ok();
  // With the zeros that a newer PyTorch takes for its pool identifier; see the header.
  const auto empty = reinterpret_cast<void (*)(uint64_t, uint64_t)>(callbacks_.empty_cache);
  const std::string error = Caught([&] { empty(0, 0); });
  if (!error.empty()) Log(LogLevel::kError, "the external allocator's empty_cache failed: ", error);
  return Status::Ok();
}

AllocatorStats ExternalAllocator::Stats() const {
  AllocatorStats stats = BlockAllocator::Stats();
  if (source_.budget != nullptr) stats.limit_bytes = static_cast<int64_t>(source_.budget->limit_bytes());
  return stats;
}

}  // namespace cudaep::memory
