// Bare launches of small kernels: the floor under the host cost of a node, and how far launches of several threads
// scale when there is no ONNX Runtime and no provider between them and the driver.
#pragma once

#include "core/status.h"

namespace cudaep::bench {

// Microseconds a launch, from the first to the end of the last, on one stream.
Result<double> LaunchUs(int launches);

// What stands for one Run: `sums` additions of 16 floats, and `products` of 8 x 64 by 64 x 64 floats with a bias, in
// turn while there are both.
struct BareRun {
  int sums = 0, products = 0;
};

// What `threads` threads do together in `seconds`, each on a stream and memory of its own: the launches of one Run and
// a wait for the stream, again and again. A Run of a session with the same nodes can hardly be faster.
Result<double> BareRunsPerSecond(int threads, const BareRun& run, double seconds);

}  // namespace cudaep::bench
