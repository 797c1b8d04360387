// Named ranges on the calling thread's row of a profiler's timeline (NVTX; Nsight Systems and others show them).
//
// Nothing is loaded for them: a tool that listens has set itself up through NVTX's own environment variables before the
// process started. Threads: any; a range ends on the thread that began it.
#pragma once

namespace cudaep::lib {

// Whether a tool listens; the same answer for the life of the process. False on the simulated device.
bool RangesAreHeard();

// Only where they are heard. The text is copied.
void BeginRange(const char* text);
void EndRange();

}  // namespace cudaep::lib
