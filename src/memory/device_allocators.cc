#include "memory/device_allocators.h"

#include "device/blocks.h"
#include "memory/adaptors/recording_allocator.h"
#include "memory/adaptors/ruled_allocator.h"
#include "memory/arena/arena.h"
#include "memory/blocks/direct_allocator.h"
#include "memory/blocks/external_allocator.h"
#include "memory/blocks/pool_allocator.h"
#include "memory/memory_source.h"

namespace cudaep::memory {
namespace {

MemorySource DeviceSource(const MemoryConfig& config, BudgetKind kind, std::shared_ptr<Budget> budget) {
  return {MemoryKind::kDevice, config.ordinal, std::move(budget), kind};
}

std::shared_ptr<Allocator> MakeDirect(const MemoryConfig& config, BudgetKind kind, std::shared_ptr<Budget> budget) {
  return std::make_shared<DirectAllocator>(DeviceSource(config, kind, std::move(budget)));
}

Result<std::shared_ptr<Allocator>> MakeExternal(const MemoryConfig& config, std::shared_ptr<Budget> budget) {
  const ExternalAddresses& given = config.external;
  ExternalCallbacks callbacks;
  callbacks.alloc = reinterpret_cast<decltype(callbacks.alloc)>(given.alloc);
  callbacks.free = reinterpret_cast<decltype(callbacks.free)>(given.free);
  callbacks.empty_cache = reinterpret_cast<decltype(callbacks.empty_cache)>(given.empty_cache);
  callbacks.caller_stream = static_cast<device::Stream>(given.caller_stream);
  CUDAEP_ASSIGN_OR_RETURN(auto allocator, ExternalAllocator::Create(config.ordinal, callbacks, std::move(budget)));
  return std::shared_ptr<Allocator>(std::move(allocator));
}

Result<std::shared_ptr<Allocator>> MakeOwn(const MemoryConfig& config, std::shared_ptr<Budget> budget) {
  switch (config.arena.mode) {
    case ArenaMode::kPool: {
      CUDAEP_ASSIGN_OR_RETURN(auto pool, PoolAllocator::Create(config.ordinal, config.arena, std::move(budget)));
      return std::shared_ptr<Allocator>(std::move(pool));
    }
    case ArenaMode::kNone:
      return MakeDirect(config, BudgetKind::kArena, std::move(budget));
    case ArenaMode::kArena:
      break;
  }
  return std::shared_ptr<Allocator>(
      std::make_shared<Arena>(DeviceSource(config, BudgetKind::kArena, std::move(budget)), config.arena));
}

// Memory of the caller may be used in ways that are not known here: it is not declared.
Status AddRules(const MemoryConfig& config, DeviceAllocators* allocators) {
  if (!config.record_path.empty()) {
    CUDAEP_ASSIGN_OR_RETURN(allocators->tensors,
                            RecordingAllocator::Create(std::move(allocators->tensors), config.record_path));
  }
  RequestRules rules{.declares = device::kChecksBlocks && !config.is_external(),
                     .reclaims = true,
                     .ordinal = config.ordinal,
                     .limit_bytes = config.limit_bytes};
  if (config.fail_allocation != 0) rules.faults = std::make_shared<FaultCounter>(config.fail_allocation);
  for (auto* allocator : {&allocators->weights, &allocators->workspaces}) {
    *allocator = std::make_shared<RuledAllocator>(std::move(*allocator), rules);
  }
  rules.requires_stream = config.require_stream_tags;
  allocators->tensors = std::make_shared<RuledAllocator>(std::move(allocators->tensors), rules);
  return Status::Ok();
}

}  // namespace

Result<DeviceAllocators> MakeDeviceAllocators(const MemoryConfig& config, const std::shared_ptr<Budget>& budget) {
  DeviceAllocators allocators;
  if (config.is_external()) {
    CUDAEP_ASSIGN_OR_RETURN(allocators.tensors, MakeExternal(config, budget));
    allocators.weights = allocators.workspaces = allocators.tensors;
  } else {
    CUDAEP_ASSIGN_OR_RETURN(allocators.tensors, MakeOwn(config, budget));
    allocators.weights = MakeDirect(config, BudgetKind::kWeights, budget);
    allocators.workspaces = MakeDirect(config, BudgetKind::kWorkspace, budget);
  }
  CUDAEP_RETURN_IF_ERROR(AddRules(config, &allocators));
  return allocators;
}

std::shared_ptr<Allocator> MakePinnedAllocator(int ordinal) {
  auto arena = std::make_shared<Arena>(MemorySource{MemoryKind::kPinnedHost, ordinal}, ArenaConfig{});
  if constexpr (!device::kChecksBlocks) return arena;
  return std::make_shared<RuledAllocator>(std::move(arena), RequestRules{.declares = true});
}

}  // namespace cudaep::memory
