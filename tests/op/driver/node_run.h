// Runs one node in the ways a host, a user's stream and a captured graph would.
//
// Tensors lie in allocations of exactly their size, so an access past the end touches a red zone of the simulated
// device, and outputs are poisoned before each launch. Host inputs are scribbled over as soon as Enqueue returns: the
// host may reuse their memory while the launched work still waits.
#pragma once

#include <vector>

#include "node.h"
#include "ops/registry.h"

namespace cudaep::test {

// All but kCreate run on a user's stream and refuse work elsewhere.
enum class Mode : int {
  kUserStream = 0,  // scratch memory of exactly the plan's size
  // The same, then captured; the graph is launched with `values` and then `replay_values`. Constants are given in the
  // form that the operator packs; other modes give them as they are. Work that cannot be captured is launched instead.
  kGraph = 1,
  kShifted = 2,  // each tensor starts one element past an aligned address; scratch memory of the stream
  kSliced = 3,   // as kUserStream, with 64-bit indices or several launches from 65 elements on
  kCreate = 4,   // only the operator and its output shapes: one launch without values
};

// How the buffers of a run are laid out.
struct Sharing {
  static constexpr int kNone = -1;
  int input = kNone;  // the input whose buffer `output` takes over when shape and element size allow it
  int output = kNone;
};

struct OutputTensor {
  Shape shape;
  Bytes values;
};

struct RunResult {
  Status status;
  bool shared = false;                              // whether the wanted buffer was taken over
  std::vector<std::vector<OutputTensor>> launches;  // one entry, or three of a captured graph
};

RunResult Run(const Node& node, Mode mode, Sharing sharing);

}  // namespace cudaep::test
