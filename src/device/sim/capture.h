// A stream capture in progress: the graph it grows and the rules that end it early. Guarded by the simulator's lock.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/sim/stream.h"

namespace cudaep::device::sim {

struct Capture {
  CaptureMode mode = CaptureMode::kGlobal;
  std::thread::id thread;
  StreamHandle* origin = nullptr;
  std::vector<StreamHandle*> members;  // all streams that take part, the origin included
  std::shared_ptr<GraphBody> body = std::make_shared<GraphBody>();
  std::string invalid;  // why; empty while valid

  // Appends a node after `stream`'s tail and makes it the new tail. Fails, and invalidates, when the node touches
  // memory that a captured branch without a dependency between them writes.
  Status Add(StreamHandle* stream, std::shared_ptr<const Work> work);
  // `stream` continues after `nodes` too, and becomes a member.
  void Join(StreamHandle* stream, const std::vector<uint32_t>& nodes);
  // Whether every member's last node precedes the origin's tail.
  bool Joined() const;
  // Marks the capture as failed and returns the error; a second reason is dropped.
  Status Invalidate(std::string reason);
  Status InvalidError() const;
  // No stream is part of it any longer.
  void Detach();

 private:
  struct Use {
    uint32_t node;
    uintptr_t begin, end;
    bool write;
  };
  bool Precedes(uint32_t earlier, const std::vector<uint32_t>& tail) const;

  std::vector<std::vector<bool>> ancestors_;  // of each node, itself included
  std::multimap<uintptr_t, Use> points_;      // by address: kernels' pointers
  std::vector<Use> ranges_;                   // copies and memsets
};

}  // namespace cudaep::device::sim
