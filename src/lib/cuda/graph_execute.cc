#include "lib/cuda/graph_execute.h"

#include "lib/cuda/device_state.h"

namespace cudaep::dnn {
namespace {

size_t SlotOf(const PackCache::Key& key) {
  uint64_t hash = reinterpret_cast<uintptr_t>(key.workspace) ^ (key.plan << 8);
  for (size_t i = 0; i < key.count; ++i) {
    hash = (hash ^ reinterpret_cast<uintptr_t>(key.addresses[i])) * 0x9E3779B97F4A7C15u;
  }
  return (hash >> 40) % PackCache::kSlots;
}

}  // namespace

Result<cudnnBackendDescriptor_t> PackCache::Find(const CudnnApi& api, const Key& key) {
  Slot& slot = slots_[SlotOf(key)];
  if (slot.pack && slot.key == key) [[likely]]
    return slot.pack.get();
  const auto count = static_cast<int64_t>(key.count);
  CUDAEP_ASSIGN_OR_RETURN(
      slot.pack, DescriptorBuilder(api, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "cuDNN variant pack")
                     .SetRaw(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, key.ids.data())
                     .SetRaw(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, key.addresses.data())
                     .SetRaw(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &key.workspace)
                     .Finish());
  slot.key = key;
  return slot.pack.get();
}

Status Execute(const CudnnApi& api, cudnnHandle_t handle, PackCache& packs, const EnginePlan& plan,
               const PackCache::Key& key) {
  CUDAEP_ASSIGN_OR_RETURN(const cudnnBackendDescriptor_t pack, packs.Find(api, key));
  const cudnnStatus_t status = api.cudnnBackendExecute(handle, plan.plan.get(), pack);
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return Status::Ok();
  return lib::AfterLibraryFailure(ToStatus(api, status, "cudnnBackendExecute"));
}

}  // namespace cudaep::dnn
