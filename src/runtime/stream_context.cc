#include "runtime/stream_context.h"

#include <cstring>

#include "core/format_bytes.h"
#include "core/log.h"
#include "memory/memory_registry.h"

namespace cudaep {
namespace {

using memory::BudgetKind;

constexpr size_t kReadBackBytes = 256;  // counts and flags, not data

// Never destroyed: static destructors of the process may run after the driver went away.
HandlePool<blas::Handle>& BlasPool() {
  static auto* pool = new HandlePool<blas::Handle>();
  return *pool;
}
HandlePool<dnn::Handle>& DnnPool() {
  static auto* pool = new HandlePool<dnn::Handle>();
  return *pool;
}

size_t FreeBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  return device::MemGetInfo(&free_bytes, &total_bytes).ok() ? free_bytes : 0;
}

std::mutex& CreationMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// One handle is made at a time, so that none is charged for another; other allocations of the moment may be.
template <class Handle>
Result<MeasuredHandle<Handle>> CreateMeasured(Result<std::unique_ptr<Handle>> (*create)()) {
  std::lock_guard lock(CreationMutex());
  MeasuredHandle<Handle> created;
  const size_t before = FreeBytes();
  CUDAEP_ASSIGN_OR_RETURN(created.handle, create());
  const size_t after = FreeBytes();
  created.bytes = before > after ? before - after : 0;
  return created;
}

template <class Handle>
Status Obtain(HandlePool<Handle>& pool, Result<std::unique_ptr<Handle>> (*create)(), const char* library,
              memory::DeviceMemory& memory, MeasuredHandle<Handle>* out) {
  MeasuredHandle<Handle> handle = pool.Take(memory.config().ordinal);
  if (handle.handle == nullptr) {
    CUDAEP_ASSIGN_OR_RETURN(handle, CreateMeasured(create));
  }
  memory::Budget& budget = memory.budget();
  budget.ChargeMeasured(BudgetKind::kLibraries, handle.bytes);
  if (budget.limit_bytes() != 0 && budget.charged_bytes() > budget.limit_bytes()) {
    Log(LogLevel::kWarning, "gpu_mem_limit is exceeded by a handle of ", library, ", which took ",
        FormatBytes(handle.bytes), ": ", budget.Describe());
  }
  *out = std::move(handle);
  return Status::Ok();
}

template <class Handle>
void GiveBack(HandlePool<Handle>& pool, memory::DeviceMemory& memory, MeasuredHandle<Handle> handle) {
  if (handle.handle == nullptr) return;
  memory.budget().Release(BudgetKind::kLibraries, handle.bytes);
  pool.Return(memory.config().ordinal, std::move(handle));
}

// The default configuration takes nothing from the device before it is used, so there is nothing to fail.
std::shared_ptr<memory::DeviceMemory> DefaultMemory(int ordinal) {
  memory::MemoryConfig config;
  config.ordinal = ordinal;
  return memory::AcquireDeviceMemory(config).value();
}

}  // namespace

StreamContext::StreamContext(int ordinal, device::Stream stream) : StreamContext(DefaultMemory(ordinal), stream) {}

StreamContext::~StreamContext() {
  GiveBack(BlasPool(), *memory_, std::move(blas_));
  GiveBack(DnnPool(), *memory_, std::move(dnn_));
}

Result<blas::Handle*> StreamContext::blas() {
  if (blas_.handle == nullptr) {
    CUDAEP_RETURN_IF_ERROR(Obtain(BlasPool(), blas::CreateHandle, "cuBLAS", *memory_, &blas_));
  }
  return blas_.handle.get();
}

Result<dnn::Handle*> StreamContext::dnn() {
  if (dnn_.handle == nullptr) {
    MeasuredHandle<dnn::Handle> handle;
    CUDAEP_RETURN_IF_ERROR(Obtain(DnnPool(), dnn::CreateHandle, "cuDNN", *memory_, &handle));
    const Status bound = dnn::BindStream(*handle.handle, stream_);
    if (!bound.ok()) {
      GiveBack(DnnPool(), *memory_, std::move(handle));
      return bound;
    }
    dnn_ = std::move(handle);
  }
  return dnn_.handle.get();
}

Status StreamContext::ReadBack(const void* device_source, size_t bytes, void* destination) {
  if (bytes > kReadBackBytes) return Internal("reads back ", bytes, " bytes, ", kReadBackBytes, " are offered");
  if (!read_back_) CUDAEP_RETURN_IF_ERROR(device::HostMalloc(read_back_.Receive(), kReadBackBytes));
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(read_back_.get(), device_source, bytes, stream_));
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream_));
  std::memcpy(destination, read_back_.get(), bytes);
  return Status::Ok();
}

Result<CopyStream*> StreamContext::copies() {
  if (!copies_.exists()) CUDAEP_RETURN_IF_ERROR(copies_.Create());
  return &copies_;
}

}  // namespace cudaep
