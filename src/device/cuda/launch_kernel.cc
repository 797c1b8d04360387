#include "device/cuda/launch_kernel.h"

#include <cuda_runtime_api.h>

#include <atomic>

#include "device/cuda/errors.h"
#include "device/launch_config.h"
#include "device/occupancy.h"

namespace cudaep::device {
namespace cuda {
namespace {

// Dynamic shared memory that is granted without asking. A kernel gets 48 KB that way, its static arrays included; those
// are kept below 34 KB.
constexpr size_t kPlainSharedBytes = size_t{14} << 10;

// Blocks of a cluster that every device with clusters has room for.
constexpr unsigned kPortableCluster = 8;

// The (kernel, device) pairs whose limits are raised: an open-addressed set that only grows. A pair that finds no place
// is raised again at each launch, which is slower and just as right.
class RaisedLimits {
 public:
  bool Contains(uint64_t key) const {
    for (size_t i = 0; i < kProbes; ++i) {
      const uint64_t held = slots_[Index(key, i)].load(std::memory_order_acquire);
      if (held == key) return true;
      if (held == 0) return false;
    }
    return false;
  }
  void Insert(uint64_t key) {
    for (size_t i = 0; i < kProbes; ++i) {
      uint64_t held = 0;
      if (slots_[Index(key, i)].compare_exchange_strong(held, key, std::memory_order_release) || held == key) return;
    }
  }

 private:
  static constexpr size_t kSlots = 1024, kProbes = 16;
  static size_t Index(uint64_t key, size_t probe) { return ((key * 0x9e3779b97f4a7c15u >> 54) + probe) % kSlots; }
  std::atomic<uint64_t> slots_[kSlots] = {};
};
constinit RaisedLimits raised_limits;

unsigned ClusterBlocks(const LaunchConfig& config) { return config.cluster.x * config.cluster.y * config.cluster.z; }

// Lets the kernel have what a launch needs an attribute for: as much dynamic shared memory as the device has, clusters
// of more blocks than are portable.
Status RaiseLimits(const void* kernel, const LaunchConfig& config) {
  const bool large_cluster = ClusterBlocks(config) > kPortableCluster;
  if (config.shared_bytes <= kPlainSharedBytes && !large_cluster) return Status::Ok();
  int ordinal = 0;
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaGetDevice(&ordinal));
  // Addresses have 47 bits, ordinals fit 6; the lowest bit is for clusters.
  const uint64_t key =
      reinterpret_cast<uintptr_t>(kernel) << 7 | static_cast<uint64_t>(ordinal) << 1 | (large_cluster ? 1 : 0);
  if (raised_limits.Contains(key)) return Status::Ok();
  int limit = 0;
  cudaFuncAttributes attributes{};
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaFuncGetAttributes(&attributes, kernel));
  const int dynamic_limit = limit - static_cast<int>(attributes.sharedSizeBytes);
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_limit));
  if (large_cluster) {
    CUDAEP_CUDA_RETURN_IF_ERROR(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  raised_limits.Insert(key);
  return Status::Ok();
}

dim3 ToDim3(const Extent& extent) { return dim3(extent.x, extent.y, extent.z); }

constexpr unsigned kMostAttributes = 3;

// Of the null stream; it points to `attributes`.
cudaLaunchConfig_t Describe(const LaunchConfig& config, cudaLaunchAttribute (&attributes)[kMostAttributes]) {
  unsigned count = 0;
  if (ClusterBlocks(config) > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = config.cluster.x;
    attributes[count].val.clusterDim.y = config.cluster.y;
    attributes[count++].val.clusterDim.z = config.cluster.z;
  }
  if (config.cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  }
  if (config.programmatic) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t launch{};
  launch.gridDim = ToDim3(config.grid);
  launch.blockDim = ToDim3(config.block);
  launch.dynamicSmemBytes = config.shared_bytes;
  launch.attrs = attributes;
  launch.numAttrs = count;
  return launch;
}

}  // namespace

Status LaunchKernel(const void* kernel, const LaunchConfig& config, Stream stream, void** arguments) {
  CUDAEP_RETURN_IF_ERROR(RaiseLimits(kernel, config));
  cudaLaunchAttribute attributes[kMostAttributes];
  cudaLaunchConfig_t launch = Describe(config, attributes);
  launch.stream = reinterpret_cast<cudaStream_t>(stream);
  return CUDAEP_CUDA_STATUS(cudaLaunchKernelExC(&launch, kernel, arguments));
}

}  // namespace cuda

Status MaxActiveClusters(const void* kernel, const LaunchConfig& config, int* count) {
  *count = 0;
  CUDAEP_RETURN_IF_ERROR(cuda::RaiseLimits(kernel, config));
  LaunchConfig bare = config;
  bare.cooperative = bare.programmatic = false;
  cudaLaunchAttribute attributes[cuda::kMostAttributes];
  const cudaLaunchConfig_t launch = cuda::Describe(bare, attributes);
  return CUDAEP_CUDA_STATUS(cudaOccupancyMaxActiveClusters(count, kernel, &launch));
}

}  // namespace cudaep::device
