// device/cuda/growable_memory.cc over a driver that only keeps its books: what is mapped where and may be accessed, and
// what was created. A call fails where the test says so.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string_view>

#include "device/device.h"
#include "device/growable_memory.h"

namespace {

constexpr CUdeviceptr kBase = 0x7000000000;

struct Driver {
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;
  std::set<CUdeviceptr> open;
  std::set<CUmemGenericAllocationHandle> alive;
  CUmemGenericAllocationHandle next = 1;
  CUdeviceptr stuck = 0;  // cannot be unmapped
} books;

}  // namespace

cudaError_t cudaGetLastError() { return cudaSuccess; }

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = cudaep::device::kGrowableStepBytes;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* base, size_t, size_t, CUdeviceptr, unsigned long long) {
  *base = kBase;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr, size_t) { return CUDA_SUCCESS; }
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t, const CUmemAllocationProp*, unsigned long long) {
  books.alive.insert(*handle = books.next++);
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return books.alive.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
CUresult cuMemMap(CUdeviceptr at, size_t, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  if (!books.alive.contains(handle)) return CUDA_ERROR_UNKNOWN;
  return books.mapped.emplace(at, handle).second ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
CUresult cuMemUnmap(CUdeviceptr at, size_t) {
  if (at == books.stuck || books.mapped.erase(at) == 0) return CUDA_ERROR_UNKNOWN;
  books.open.erase(at);
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc*, size_t) {
  for (; bytes != 0; at += cudaep::device::kGrowableStepBytes, bytes -= cudaep::device::kGrowableStepBytes) {
    if (!books.mapped.contains(at)) return CUDA_ERROR_UNKNOWN;
    books.open.insert(at);
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, int) {
  *value = 1;
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string_view, void*> all{
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&cuMemGetAllocationGranularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&cuMemAddressReserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&cuMemAddressFree)},
      {"cuMemCreate", reinterpret_cast<void*>(&cuMemCreate)},
      {"cuMemRelease", reinterpret_cast<void*>(&cuMemRelease)},
      {"cuMemMap", reinterpret_cast<void*>(&cuMemMap)},
      {"cuMemUnmap", reinterpret_cast<void*>(&cuMemUnmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&cuMemSetAccess)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&cuDeviceGetAttribute)}};
  const auto found = all.find(name);
  if (found == all.end()) return cudaErrorUnknown;
  *function = found->second;
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

namespace cudaep::device {

// Of the other files of the layer, what growable memory calls.
DeviceGuard::DeviceGuard(int) {}
DeviceGuard::~DeviceGuard() = default;
Status DeviceSynchronize() { return Status::Ok(); }

namespace {

TEST(GrowableMemoryTest, UnmappingTakesAllOrNothing) {
  books = {};
  GrowableMemory memory = nullptr;
  ASSERT_TRUE(GrowableCreate(&memory, 0, 16 * kGrowableStepBytes).ok());
  ASSERT_TRUE(GrowableMap(memory, 0, 8 * kGrowableStepBytes).ok());
  const auto before = books.mapped;
  ASSERT_EQ(before.size(), 8u);
  for (size_t stuck : {2, 4, 6}) {  // the first, one between, the last of [2, 7)
    books.stuck = kBase + stuck * kGrowableStepBytes;
    EXPECT_FALSE(GrowableUnmap(memory, 2 * kGrowableStepBytes, 5 * kGrowableStepBytes).ok());
    EXPECT_EQ(books.mapped, before) << stuck;
    EXPECT_EQ(books.open.size(), 8u) << stuck;
    EXPECT_EQ(books.alive.size(), 8u) << stuck;
  }
  books.stuck = 0;
  EXPECT_TRUE(GrowableUnmap(memory, 2 * kGrowableStepBytes, 5 * kGrowableStepBytes).ok());
  EXPECT_EQ(books.mapped.size(), 3u);
  EXPECT_EQ(books.alive.size(), 3u);
  EXPECT_TRUE(GrowableMap(memory, 2 * kGrowableStepBytes, kGrowableStepBytes).ok());
  EXPECT_TRUE(GrowableDestroy(memory).ok());
  EXPECT_TRUE(books.mapped.empty());
  EXPECT_TRUE(books.alive.empty());
}

// Nothing is left of a request that meets an occupied address half way.
TEST(GrowableMemoryTest, MappingTakesAllOrNothing) {
  books = {};
  GrowableMemory memory = nullptr;
  ASSERT_TRUE(GrowableCreate(&memory, 0, 16 * kGrowableStepBytes).ok());
  books.mapped[kBase + 3 * kGrowableStepBytes] = 99;
  EXPECT_FALSE(GrowableMap(memory, 0, 8 * kGrowableStepBytes).ok());
  EXPECT_EQ(books.mapped.size(), 1u);
  EXPECT_TRUE(books.alive.empty());
  EXPECT_EQ(GrowableMap(memory, 8 * kGrowableStepBytes, 9 * kGrowableStepBytes).code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(GrowableDestroy(memory).ok());
}

}  // namespace
}  // namespace cudaep::device
