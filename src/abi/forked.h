// A child that was forked after the provider had used a device cannot use it: neither the driver's state nor our
// threads come along. Calls in it are errors that say so, and nothing of the parent's is ended there.
//
// Cost: one load of a flag; it is asked where sessions, Runs, allocators, streams and copies outside of Runs begin.
// Threads: any.
#pragma once

#include "core/status.h"

namespace cudaep::abi {

// From now on a fork matters. kOutOfMemory where that cannot be arranged.
Status DeviceIsUsed();

bool IsForked();

// kFailedPrecondition in such a child.
Status CheckNotForked();

}  // namespace cudaep::abi
