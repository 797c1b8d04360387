// A sequence of memory requests and frees to replay through an allocator: read from a file, or like whole-model Runs.
//
// A file has one step a line; empty lines and lines that begin with # are skipped:
//   a ID BYTES LANE   memory ID of so many bytes is asked for on stream LANE, or - for memory of no stream
//   f ID              it is freed
//   i LANE            the host waits for the stream, as at the end of a Run
// IDs and lanes are small numbers of the trace's own; an ID may be used again once it was freed. The provider option
// debug.record_allocations writes such files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace cudaep::bench {

struct TraceStep {
  enum class Kind : uint8_t { kAllocate, kFree, kIdle };
  static constexpr uint32_t kNoLane = UINT32_MAX;
  Kind kind = Kind::kAllocate;
  uint32_t id = 0;
  uint32_t lane = 0;
  size_t bytes = 0;
};

struct Trace {
  std::vector<TraceStep> steps;
  uint32_t ids = 0, lanes = 0;  // one more than the largest
  size_t peak_live_bytes = 0;   // as asked for
};

// kInvalidArgument names the line: unknown steps, memory freed or asked for twice, no bytes.
Result<Trace> ReadTrace(const std::string& path);

// `runs` Runs of networks with skip connections on each of `lanes` streams, interleaved; batch and length differ from
// Run to Run; `unlike`: so do all tensors of a Run. All memory is freed in the end.
Trace ModelRuns(uint32_t lanes, int runs, uint32_t seed, bool unlike);

}  // namespace cudaep::bench
