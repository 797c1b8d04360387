// Finds accesses of different streams to the same memory that nothing orders.
//
// Precise about what it knows and silent about the rest: copies and memsets have ranges, a kernel's pointer reaches to
// the end of its declared block or, without one, stands for the byte it points at; reads of several streams are fine,
// and everything that any host thread has synchronised with precedes all later calls. What was done to a block outlives
// it: whoever gets the memory must be ordered after. Old entries may be forgotten, which loses a finding but never
// invents one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/status.h"
#include "device/sim/block_table.h"
#include "device/sim/clock.h"
#include "device/sim/stream.h"

namespace cudaep::device::sim {

class AccessTable {
 public:
  // An error when `access` by the next operation of `stream` conflicts with an earlier one.
  Status Check(const Access& access, const Actor& actor, const StreamHandle& stream, const Clock& host) const;
  void Record(const Access& access, const Actor& actor, const StreamHandle& stream, uint64_t sequence,
              const Clock& host);
  // The memory changed hands: nothing recorded about it matters any more, and its blocks are gone.
  void Forget(uintptr_t begin, uintptr_t end);
  void Clear();

  BlockTable blocks;
  // Ends the innermost block that starts at `begin`; null if there is none. Valid until the next call.
  const Block* EndBlock(uintptr_t begin, uint64_t call, const Clock& host);

 private:
  struct Mark {
    uint32_t slot;
    uint64_t sequence;
    Actor actor;
  };
  struct Point {
    uintptr_t end = 0;
    bool written = false;
    Mark write;
    std::vector<Mark> reads;  // at most one per stream
  };
  struct Range {
    uintptr_t begin, end;
    bool write;
    Mark mark;
  };
  void Prune(const Clock& host);

  std::map<uintptr_t, Point> points_;
  std::vector<Range> ranges_;
  std::vector<Range> ended_;  // what was done to blocks that have ended
};

}  // namespace cudaep::device::sim
