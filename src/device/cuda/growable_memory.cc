// device/growable_memory.h over the driver's virtual memory management.
#include "device/growable_memory.h"

#include <cuda.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/checked_math.h"
#include "core/strings.h"
#include "device/cuda/driver_function.h"
#include "device/cuda/errors.h"
#include "device/device.h"

namespace cudaep::device {
namespace {

// The driver's functions.
struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  bool complete = false;
};

const Driver& TheDriver() {
  static const Driver driver = [] {
    Driver d;
    d.complete =
        cuda::FindDriverFunction("cuMemGetAllocationGranularity", &d.granularity) &&
        cuda::FindDriverFunction("cuMemAddressReserve", &d.reserve) &&
        cuda::FindDriverFunction("cuMemAddressFree", &d.free) && cuda::FindDriverFunction("cuMemCreate", &d.create) &&
        cuda::FindDriverFunction("cuMemRelease", &d.release) && cuda::FindDriverFunction("cuMemMap", &d.map) &&
        cuda::FindDriverFunction("cuMemUnmap", &d.unmap) && cuda::FindDriverFunction("cuMemSetAccess", &d.set_access) &&
        cuda::FindDriverFunction("cuDeviceGetAttribute", &d.attribute);
    return d;
  }();
  return driver;
}

Status ToStatus(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return Status::Ok();
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return OutOfMemory(call, ": the device has no memory left");
  return Status(StatusCode::kDeviceError, StrCat(call, " failed with driver error ", static_cast<int>(result)));
}

CUmemAllocationProp PropertiesOf(int ordinal) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  return properties;
}

}  // namespace

struct GrowableMemoryHandle {
  int ordinal = 0;
  CUdeviceptr base = 0;
  size_t reserved = 0;
  std::vector<CUmemGenericAllocationHandle> steps;  // by address; 0: not mapped

  ~GrowableMemoryHandle() {
    if (base != 0) TheDriver().free(base, reserved);
  }
  CUdeviceptr At(size_t step) const { return base + step * kGrowableStepBytes; }

  Status Map(size_t step) {
    const CUmemAllocationProp properties = PropertiesOf(ordinal);
    CUmemGenericAllocationHandle handle = 0;
    CUDAEP_RETURN_IF_ERROR(ToStatus(TheDriver().create(&handle, kGrowableStepBytes, &properties, 0), "cuMemCreate"));
    Status status = ToStatus(TheDriver().map(At(step), kGrowableStepBytes, 0, handle, 0), "cuMemMap");
    if (!status.ok()) {
      TheDriver().release(handle);
      return status;
    }
    steps[step] = handle;
    return status;
  }
  Status Open(size_t first, size_t count) {
    CUmemAccessDesc access{};
    access.location = PropertiesOf(ordinal).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return ToStatus(TheDriver().set_access(At(first), count * kGrowableStepBytes, &access, 1), "cuMemSetAccess");
  }
  // All of it or nothing: what was unmapped before a step that fails is put back.
  Status Unmap(size_t first, size_t end) {
    for (size_t step = first; step < end; ++step) {
      const CUresult unmapped = TheDriver().unmap(At(step), kGrowableStepBytes);
      if (unmapped == CUDA_SUCCESS) continue;
      for (size_t back = first; back < step; ++back) TheDriver().map(At(back), kGrowableStepBytes, 0, steps[back], 0);
      if (step > first) Open(first, step - first).IgnoreError();
      return ToStatus(unmapped, "cuMemUnmap");
    }
    for (size_t step = first; step < end; ++step) TheDriver().release(std::exchange(steps[step], 0));
    return Status::Ok();
  }
  // Whatever is mapped there and can be.
  void UnmapAny(size_t first, size_t end) {
    for (size_t step = first; step < end; ++step) {
      if (steps[step] != 0) Unmap(step, step + 1).IgnoreError();
    }
  }
};

Status GrowableCreate(GrowableMemory* memory, int ordinal, size_t most_bytes) {
  *memory = nullptr;
  const Driver& driver = TheDriver();
  int supported = 0;
  if (!driver.complete ||
      driver.attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ordinal) != CUDA_SUCCESS ||
      supported == 0) {
    return NotSupported("CUDA device ", ordinal, " has no virtual memory management");
  }
  const CUmemAllocationProp properties = PropertiesOf(ordinal);
  size_t granularity = 0;
  CUDAEP_RETURN_IF_ERROR(
      ToStatus(driver.granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "cuMemGranularity"));
  if (granularity == 0 || kGrowableStepBytes % granularity != 0) {
    return NotSupported("CUDA device ", ordinal, " maps memory in steps of ", granularity, " bytes");
  }
  auto made = std::make_unique<GrowableMemoryHandle>();
  made->ordinal = ordinal;
  made->reserved = AlignUp(most_bytes, kGrowableStepBytes);
  CUDAEP_RETURN_IF_ERROR(ToStatus(driver.reserve(&made->base, made->reserved, 0, 0, 0), "cuMemAddressReserve"));
  *memory = made.release();
  return Status::Ok();
}

void* GrowableBase(GrowableMemory memory) { return reinterpret_cast<void*>(memory->base); }

Status GrowableMap(GrowableMemory memory, size_t from, size_t bytes) {
  if (from + bytes > memory->reserved) {
    return OutOfMemory("the reserved addresses end after ", memory->reserved, " bytes");
  }
  const size_t first = from / kGrowableStepBytes, end = first + bytes / kGrowableStepBytes;
  if (memory->steps.size() < end) memory->steps.resize(end);
  Status status;
  for (size_t step = first; status.ok() && step < end; ++step) status = memory->Map(step);
  if (status.ok()) status = memory->Open(first, end - first);
  if (!status.ok()) memory->UnmapAny(first, end);
  return status;
}

Status GrowableUnmap(GrowableMemory memory, size_t from, size_t bytes) {
  const size_t first = from / kGrowableStepBytes;
  return memory->Unmap(first, first + bytes / kGrowableStepBytes);
}

Status GrowableDestroy(GrowableMemory memory) {
  DeviceGuard guard(memory->ordinal);
  const Status status = guard.status().ok() ? DeviceSynchronize() : guard.status();
  memory->UnmapAny(0, memory->steps.size());
  delete memory;
  return status;
}

}  // namespace cudaep::device
