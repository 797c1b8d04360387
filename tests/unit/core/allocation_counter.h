// Host allocations of a thread. A test that links allocation_counter.cc has its own operator new.
#pragma once

#include <cstdint>

namespace cudaep::testing {

// Of the calling thread, since it began.
int64_t AllocationCount();

}  // namespace cudaep::testing
