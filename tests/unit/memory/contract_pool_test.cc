// The driver's pool keeps the contract.
#include "contract_suite.h"
#include "memory/blocks/pool_allocator.h"

namespace cudaep::memory::testing {
namespace {

std::unique_ptr<Allocator> MakePool(std::shared_ptr<Budget> budget) {
  return std::move(PoolAllocator::Create(0, ArenaConfig{}, std::move(budget))).value();
}

INSTANTIATE_TEST_SUITE_P(Driver, AllocatorContract, ::testing::Values(Contender{"pool", MakePool}), NameOf);

}  // namespace
}  // namespace cudaep::memory::testing
