// Ranks of a group as threads of this process, each with a simulated device and a stream of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "device/sim/sim.h"
#include "lib/comm.h"

namespace cudaep::comm {

// Device memory of bytes on the current device, filled from `bytes`.
class DeviceBytes {
 public:
  explicit DeviceBytes(const std::vector<uint8_t>& bytes) : size_(bytes.size()) {
    if (size_ == 0) return;
    EXPECT_TRUE(device::Malloc(memory_.Receive(), size_).ok());
    device::UniqueStream stream;
    EXPECT_TRUE(device::StreamCreate(stream.Receive()).ok());
    EXPECT_TRUE(device::MemcpyAsync(memory_.get(), bytes.data(), size_, stream.get()).ok());
    EXPECT_TRUE(device::StreamSynchronize(stream.get()).ok());
  }
  void* get() const { return memory_.get(); }
  // Waits for `stream`.
  std::vector<uint8_t> Read(device::Stream stream) const {
    std::vector<uint8_t> bytes(size_);
    EXPECT_TRUE(device::MemcpyAsync(bytes.data(), memory_.get(), size_, stream).ok());
    EXPECT_TRUE(device::StreamSynchronize(stream).ok());
    return bytes;
  }

 private:
  size_t size_;
  device::UniqueDeviceMemory memory_;
};

struct Rank {
  std::unique_ptr<Communicator> comm;
  device::UniqueStream stream;
};

inline void UseDevices(int devices, device::sim::Mode mode) {
  device::sim::Configuration configuration;
  configuration.devices = devices;
  configuration.mode = mode;
  ASSERT_TRUE(device::sim::Configure(configuration).ok());
}

// On device `rank`, which becomes current.
inline Rank JoinAs(const UniqueId& id, int rank, int size, int timeout_s) {
  Rank made;
  EXPECT_TRUE(device::SetDevice(rank).ok());
  Result<std::unique_ptr<Communicator>> joined = Join(id, rank, size, std::chrono::seconds(timeout_s));
  EXPECT_TRUE(joined.ok()) << joined.status().ToString();
  made.comm = std::move(joined).value();
  EXPECT_TRUE(device::StreamCreate(made.stream.Receive()).ok());
  return made;
}

// `run(rank)` for every rank of a new group at once.
template <class F>
void OnRanks(int size, F&& run, int timeout_s = 20) {
  Result<UniqueId> id = MakeUniqueId();
  ASSERT_TRUE(id.ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank made = JoinAs(id.value(), rank, size, timeout_s);
      if (made.comm != nullptr) run(made);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cudaep::comm
