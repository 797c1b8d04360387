// Collective communication of one rank a device: NCCL on GPUs, shared memory on the simulated device.
//
// A communicator is one rank of a group. Its operations are queued on a stream and move data once every rank has queued
// the same one, so all ranks must queue the same operations in the same order; they return before that.
// Ownership: a communicator ends after the streams that it was used on are idle.
// Threads: one at a time may queue; Check may be called from any.
// Errors: kLibraryMissing without the library. What goes wrong later (a rank that ended, one that did not come within
// the time limit) fails the communicator for good: its operations end without having filled their outputs, Check and
// every later call say why. The device and its other streams stay usable.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::comm {

enum class Reduction : uint8_t { kSum, kProduct, kMin, kMax, kMean };

// What can be reduced, the mean of floats alone.
inline constexpr DataTypeSet kReducedTypes =
    kFloatTypes | DataTypeSet{DataType::kInt8,   DataType::kUint8, DataType::kInt32,
                              DataType::kUint32, DataType::kInt64, DataType::kUint64};

// Names a group. Made by one rank, which gives it to the others.
using UniqueId = std::array<std::byte, 128>;

class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Each output element is the reduction of the elements at its place. The output may be the input.
  virtual Status AllReduce(const void* in, void* out, int64_t elems, DataType type, Reduction reduction,
                           device::Stream stream) = 0;
  // Of `size` parts of `elems` elements the rank's own, reduced.
  virtual Status ReduceScatter(const void* in, void* out, int64_t elems, DataType type, Reduction reduction,
                               device::Stream stream) = 0;
  // The `bytes` of every rank, one after the other.
  virtual Status AllGather(const void* in, void* out, size_t bytes, device::Stream stream) = 0;
  // Part i of the input, of `bytes`, goes to rank i; part i of the output is rank i's.
  virtual Status AllToAll(const void* in, void* out, size_t bytes, device::Stream stream) = 0;

  // What has failed so far.
  virtual Status Check() const = 0;

 private:
  const int rank_, size_;
};

// "NCCL 2.28.9"; loads the library when it was not loaded yet.
Result<std::string> Version();

Result<UniqueId> MakeUniqueId();

// Joins the group as `rank`, on the current device; returns when all ranks have. `timeout` holds for that and for each
// operation later.
Result<std::unique_ptr<Communicator>> Join(const UniqueId& id, int rank, int size, std::chrono::seconds timeout);

}  // namespace cudaep::comm
