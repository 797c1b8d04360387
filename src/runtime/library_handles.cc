#include "runtime/library_handles.h"

#include <cstdint>

#include "core/format_bytes.h"
#include "core/log.h"
#include "memory/capture_gate.h"

namespace cudaep {
namespace {

using memory::BudgetKind;

size_t FreeBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  return device::MemGetInfo(&free_bytes, &total_bytes).ok() ? free_bytes : 0;
}

// One handle of any library is made at a time, so that none is charged for another; other allocations of the moment may
// be.
std::mutex& CreationMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

template <class Handle>
MeasuredHandle<Handle> HandlePool<Handle>::TakeIdle(int ordinal) {
  std::lock_guard lock(mutex_);
  auto& idle = idle_[ordinal];
  if (idle.empty()) return {};
  MeasuredHandle<Handle> handle = std::move(idle.back());
  idle.pop_back();
  return handle;
}

template <class Handle>
Result<MeasuredHandle<Handle>> HandlePool<Handle>::Take(memory::DeviceMemory& memory) {
  MeasuredHandle<Handle> taken = TakeIdle(memory.config().ordinal);
  if (taken.handle == nullptr) {
    std::lock_guard lock(CreationMutex());
    const size_t before = FreeBytes();
    CUDAEP_ASSIGN_OR_RETURN(taken.handle, create_());
    const size_t after = FreeBytes();
    taken.bytes = before > after ? before - after : 0;
    created_.fetch_add(1, std::memory_order_relaxed);
  }
  memory::Budget& budget = memory.budget();
  budget.ChargeMeasured(BudgetKind::kLibraries, taken.bytes);
  if (budget.limit_bytes() != 0 && budget.charged_bytes() > budget.limit_bytes()) {
    Log(LogLevel::kWarning, "gpu_mem_limit is exceeded by a handle of ", library_, ", which took ",
        FormatBytes(taken.bytes), ": ", budget.Describe());
  }
  return taken;
}

template <class Handle>
void HandlePool<Handle>::Return(memory::DeviceMemory& memory, MeasuredHandle<Handle> handle) {
  memory.budget().Release(BudgetKind::kLibraries, handle.bytes);
  const auto keep = [&](size_t most) {
    std::lock_guard lock(mutex_);
    auto& idle = idle_[memory.config().ordinal];
    if (idle.size() >= most) return false;
    idle.push_back(std::move(handle));
    return true;
  };
  if (keep(kMaxIdle)) return;
  const memory::DeviceWaitTurn turn;  // libraries wait for the device when a handle ends
  if (!turn.is_taken() && keep(SIZE_MAX)) return;
  handle.handle.reset();
}

template class HandlePool<blas::Handle>;
template class HandlePool<dnn::Handle>;

// Never destroyed: static destructors of the process may run after the driver went away.
HandlePool<blas::Handle>& BlasHandles() {
  static auto* const pool = new HandlePool<blas::Handle>("cuBLAS", blas::CreateHandle);
  return *pool;
}

HandlePool<dnn::Handle>& DnnHandles() {
  static auto* const pool = new HandlePool<dnn::Handle>("cuDNN", dnn::CreateHandle);
  return *pool;
}

Result<HandleLease<blas::Handle>> LeaseBlas(const std::shared_ptr<memory::DeviceMemory>& memory) {
  CUDAEP_ASSIGN_OR_RETURN(auto handle, BlasHandles().Take(*memory));
  return HandleLease<blas::Handle>(BlasHandles(), memory, std::move(handle));
}

Result<HandleLease<dnn::Handle>> LeaseDnn(const std::shared_ptr<memory::DeviceMemory>& memory, device::Stream stream) {
  CUDAEP_ASSIGN_OR_RETURN(auto handle, DnnHandles().Take(*memory));
  HandleLease<dnn::Handle> lease(DnnHandles(), memory, std::move(handle));
  CUDAEP_RETURN_IF_ERROR(dnn::BindStream(*lease.get(), stream));
  return lease;
}

}  // namespace cudaep
