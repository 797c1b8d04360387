// Why the thread's last allocation failed: the host's allocator interface can only say null.
//
// Host allocators note the reason here, and whoever meets the null pointer next on the same thread reports it.
// Threads: every function speaks of the calling thread.
#pragma once

#include "core/status.h"

namespace cudaep::abi {

void NoteAllocationFailure(const Status& status);

// From here on nothing that happened before is reported. Costs one thread-local store.
void ForgetAllocationFailure();

// The failure noted since, and forgets it; `otherwise` when there was none.
Status TakeAllocationFailure(Status otherwise);

}  // namespace cudaep::abi
