// Common ground of the device tests: a fresh simulated device for each, and short names for memory.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/device.h"
#include "device/device_info.h"
#include "device/sim/block_executor.h"
#include "device/sim/sim.h"
#include "test_kernels.h"

#define ASSERT_OK(expression)                                               \
  do {                                                                      \
    const ::cudaep::Status status_ = (expression);                          \
    ASSERT_TRUE(status_.ok()) << #expression << ": " << status_.ToString(); \
  } while (false)
#define EXPECT_OK(expression)                                               \
  do {                                                                      \
    const ::cudaep::Status status_ = (expression);                          \
    EXPECT_TRUE(status_.ok()) << #expression << ": " << status_.ToString(); \
  } while (false)
// The error's code, and that its text contains `text`.
#define EXPECT_FAILS(expression, expected_code, text)                                     \
  do {                                                                                    \
    const ::cudaep::Status status_ = (expression);                                        \
    EXPECT_EQ(status_.code(), ::cudaep::StatusCode::expected_code) << status_.ToString(); \
    EXPECT_NE(status_.ToString().find(text), std::string::npos) << status_.ToString();    \
  } while (false)

namespace cudaep::device::testing {

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void TearDown() override {
    streams_.clear();
    ASSERT_OK(sim::Configure({}));
  }

  // A new machine with three streams.
  void Start(const sim::Configuration& configuration) {
    streams_.clear();
    ASSERT_OK(sim::Configure(configuration));
    streams_.resize(3);
    for (UniqueStream& stream : streams_) ASSERT_OK(StreamCreate(stream.Receive()));
  }
  static sim::Configuration With(sim::Mode mode, uint64_t seed = 1) {
    sim::Configuration configuration;
    configuration.mode = mode;
    configuration.seed = seed;
    return configuration;
  }

  Stream stream(int index = 0) { return streams_[static_cast<size_t>(index)].get(); }

  // Device memory; freed with the test's machine.
  template <class T>
  T* Allocate(size_t count) {
    void* pointer = nullptr;
    const Status status = Malloc(&pointer, count * sizeof(T));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return static_cast<T*>(pointer);
  }
  template <class T>
  T* AllocatePinned(size_t count) {
    void* pointer = nullptr;
    const Status status = HostMalloc(&pointer, count * sizeof(T));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return static_cast<T*>(pointer);
  }
  template <class T>
  T* Upload(const std::vector<T>& values) {
    T* pointer = Allocate<T>(values.size());
    const Status status = MemcpyAsync(pointer, values.data(), values.size() * sizeof(T), stream());
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(StreamSynchronize(stream()).ok());
    return pointer;
  }
  template <class T>
  std::vector<T> Download(const T* pointer, size_t count, Stream on = nullptr) {
    std::vector<T> values(count);
    const Status status = MemcpyAsync(values.data(), pointer, count * sizeof(T), on != nullptr ? on : stream());
    EXPECT_TRUE(status.ok()) << status.ToString();
    return values;
  }

 private:
  std::vector<UniqueStream> streams_;
};

// With what planners ask of a device, which a test may change.
class DeviceInfoTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    const auto info = GetDeviceInfo(0);
    ASSERT_TRUE(info.ok());
    info_ = *info.value();
  }

  DeviceInfo info_;
};

}  // namespace cudaep::device::testing
