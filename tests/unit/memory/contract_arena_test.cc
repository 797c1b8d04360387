// The arena and the allocator without one keep the contract.
#include "contract_suite.h"
#include "memory/arena/arena.h"
#include "memory/blocks/direct_allocator.h"

namespace cudaep::memory::testing {
namespace {

std::unique_ptr<Allocator> MakeArena(std::shared_ptr<Budget> budget) {
  return std::make_unique<Arena>(MemorySource{MemoryKind::kDevice, 0, std::move(budget)}, ArenaConfig{});
}
std::unique_ptr<Allocator> MakeTightArena(std::shared_ptr<Budget> budget) {
  ArenaConfig config;
  config.extend_strategy = ExtendStrategy::kSameAsRequested;
  config.max_dead_bytes_per_chunk = 0;
  return std::make_unique<Arena>(MemorySource{MemoryKind::kDevice, 0, std::move(budget)}, config);
}
std::unique_ptr<Allocator> MakeDirect(std::shared_ptr<Budget> budget) {
  return std::make_unique<DirectAllocator>(MemorySource{MemoryKind::kDevice, 0, std::move(budget)});
}

INSTANTIATE_TEST_SUITE_P(Own, AllocatorContract,
                         ::testing::Values(Contender{"arena", MakeArena}, Contender{"tight_arena", MakeTightArena},
                                           Contender{"direct", MakeDirect}),
                         NameOf);

}  // namespace
}  // namespace cudaep::memory::testing
