// Memory of the caller keeps the contract.
#include "caller_memory.h"
#include "contract_suite.h"

namespace cudaep::memory::testing {
namespace {

std::unique_ptr<Allocator> MakeExternal(std::shared_ptr<Budget> budget) {
  CallerMemory::Reset(nullptr);
  return std::move(ExternalAllocator::Create(0, CallerMemory::Callbacks(), std::move(budget))).value();
}

INSTANTIATE_TEST_SUITE_P(Callers, AllocatorContract, ::testing::Values(Contender{"external", MakeExternal}), NameOf);

}  // namespace
}  // namespace cudaep::memory::testing
