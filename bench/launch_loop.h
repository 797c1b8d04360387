// Bare launches of one small kernel: the floor under the host cost of a node, and how far launches of several threads
// scale when there is no ONNX Runtime and no provider between them and the driver.
#pragma once

#include "core/status.h"

namespace cudaep::bench {

// Microseconds a launch, from the first to the end of the last, on one stream.
Result<double> LaunchUs(int launches);

// What `threads` threads do together in `seconds`, each on a stream and memory of its own: `launches` launches and a
// wait for the stream, again and again, counted as one Run. A Run of a session with as many nodes can hardly be faster.
Result<double> BareRunsPerSecond(int threads, int launches, double seconds);

}  // namespace cudaep::bench
