// One operation of the simulated device, immutable once made: the queue, a graph and its replays share it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "device/launch.h"
#include "device/sim/actor.h"
#include "device/sim/heap.h"

namespace cudaep::device::sim {

// Memory that an operation touches. Kernel arguments say where it starts, not how much it is.
struct Access {
  uintptr_t begin = 0;
  size_t bytes = 0;  // 0: unknown, at least the first byte
  bool write = false;
  bool declared = true;  // false: found by scanning a struct, so that it may be no pointer at all
  // Of the declared block that it lies in, if there is one: where that ends, and where the outermost around it begins.
  uintptr_t block_end = 0, block_begin = 0;

  // What it may touch.
  uintptr_t end() const { return bytes != 0 ? begin + bytes : std::max(block_end, begin + 1); }
  // Where accesses begin that may reach into it.
  uintptr_t first() const { return block_end != 0 ? block_begin : begin; }
};

struct GraphBody;
struct EventState;
struct PoolCredit;

struct KernelWork {
  AnyKernel kernel;
  const KernelSignature* signature;
  LaunchConfig config;
  std::unique_ptr<std::byte[]> arguments;
};
enum class Direction : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice, kHostToHost };
struct CopyWork {
  void* destination;
  const void* source;  // not used when there is a snapshot
  size_t bytes;
  Direction direction;
  std::unique_ptr<std::byte[]> snapshot;  // of a pageable source
};
struct FillWork {
  void* destination;
  int value;
  size_t bytes;
};
struct CallbackWork {
  HostFunction function;
  void* state;
};
struct LibraryWork {
  std::string name;
  std::function<void()> run;
  std::function<bool()> attempt;  // in place of `run`: whether it could be done by now
  std::function<void()> ahead;    // what it does before the kernel in front of it runs
};
struct EventMark {
  std::shared_ptr<EventState> event;
  uint64_t generation;
};
struct EventWait {
  std::shared_ptr<StreamHandle> source;
  uint64_t sequence;
};
struct AllocateWork {};
struct OverwriteWork {  // of a block that has ended
  uintptr_t begin, end;
};
struct FreeWork {
  Allocation* allocation;
  std::shared_ptr<PoolCredit> credit;  // what its pool gets back; null outside of pools
};
struct GraphWork {
  std::shared_ptr<const GraphBody> body;
};
using Payload = std::variant<KernelWork, CopyWork, FillWork, CallbackWork, LibraryWork, EventMark, EventWait,
                             AllocateWork, FreeWork, OverwriteWork, GraphWork>;

struct Work {
  Payload payload;
  int ordinal = 0;
  std::vector<Access> accesses;

  template <class T>
  const T* As() const {
    return std::get_if<T>(&payload);
  }
  Actor ActorOn(uint32_t stream) const;
  std::string Describe() const;  // "kernel Name", "a copy of 16 bytes", ...
};

struct GraphNode {
  std::shared_ptr<const Work> work;
  std::vector<uint32_t> dependencies;  // earlier nodes
};
struct GraphBody {
  int ordinal = 0;
  std::vector<GraphNode> nodes;
};

}  // namespace cudaep::device::sim
