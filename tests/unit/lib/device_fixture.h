// A stream, device buffers and typed test data for the tests of vendor libraries.
//
// Test values are small multiples of 1/4, so that products are exact in every type, TF32 included, and sums of a few
// hundred of them are exact in fp32: wrong indexing shows as a large error, never as noise.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/data_type.h"
#include "core/float16.h"
#include "device/device.h"

namespace cudaep {

#define CUDAEP_ASSERT_OK(expression)                                 \
  do {                                                               \
    const ::cudaep::Status cudaep_asserted = (expression);           \
    ASSERT_TRUE(cudaep_asserted.ok()) << cudaep_asserted.ToString(); \
  } while (false)

inline std::vector<double> TestValues(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = (static_cast<int>(generator() % 17) - 8) * 0.25;
  return values;
}

// `values` as the channels from 8 on of pixels that have `pitch`, beside others; all of them where that is 0.
inline std::vector<double> WidenPixels(const std::vector<double>& values, int64_t channels, int64_t pitch) {
  if (pitch == 0) return values;
  std::vector<double> wide(values.size() / static_cast<size_t>(channels) * static_cast<size_t>(pitch), 3.0);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto pixel = static_cast<int64_t>(i) / channels, channel = static_cast<int64_t>(i) % channels;
    wide[static_cast<size_t>(pixel * pitch + 8 + channel)] = values[i];
  }
  return wide;
}

inline double RelativeTolerance(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 2e-3;
    case DataType::kBFloat16:
      return 1.6e-2;
    case DataType::kDouble:
      return 1e-12;
    default:
      return 1e-4;
  }
}

inline std::vector<uint8_t> Encode(DataType type, const std::vector<double>& values) {
  const size_t elem = SizeOf(type);
  std::vector<uint8_t> bytes(values.size() * elem);
  for (size_t i = 0; i < values.size(); ++i) {
    const float narrow = static_cast<float>(values[i]);
    const Half half = HalfFromFloat(narrow);
    const BFloat16 brain = BFloat16FromFloat(narrow);
    const void* source = type == DataType::kFloat16    ? static_cast<const void*>(&half)
                         : type == DataType::kBFloat16 ? static_cast<const void*>(&brain)
                         : type == DataType::kDouble   ? static_cast<const void*>(&values[i])
                                                       : &narrow;
    std::memcpy(bytes.data() + i * elem, source, elem);
  }
  return bytes;
}

inline double DecodeOne(DataType type, const uint8_t* at) {
  float narrow = 0;
  double wide = 0;
  Half half{};
  BFloat16 brain{};
  switch (type) {
    case DataType::kFloat16:
      std::memcpy(&half, at, sizeof(half));
      return ToFloat(half);
    case DataType::kBFloat16:
      std::memcpy(&brain, at, sizeof(brain));
      return ToFloat(brain);
    case DataType::kDouble:
      std::memcpy(&wide, at, sizeof(wide));
      return wide;
    default:
      std::memcpy(&narrow, at, sizeof(narrow));
      return narrow;
  }
}

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    CUDAEP_ASSERT_OK(device::GetDeviceCount(&count));
    if (count == 0) GTEST_SKIP() << "no CUDA device";
    CUDAEP_ASSERT_OK(device::StreamCreate(stream_.Receive()));
  }

  device::Stream stream() const { return stream_.get(); }

  // Device memory of `bytes`, all bits set (NaN in every type); null for 0. The test fails when there is none.
  void* Allocate(size_t bytes) {
    if (bytes == 0) return nullptr;
    device::UniqueDeviceMemory memory;
    Check(device::Malloc(memory.Receive(), bytes));
    Check(device::MemsetAsync(memory.get(), 0xFF, bytes, stream()));
    memory_.push_back(std::move(memory));
    return memory_.back().get();
  }

  void* Upload(DataType type, const std::vector<double>& values) {
    const std::vector<uint8_t> bytes = Encode(type, values);
    void* target = Allocate(bytes.size());
    Check(device::MemcpyAsync(target, bytes.data(), bytes.size(), stream()));
    return target;
  }

  std::vector<double> Download(DataType type, const void* source, int64_t count) {
    const size_t elem = SizeOf(type);
    std::vector<uint8_t> bytes(static_cast<size_t>(count) * elem);
    Check(device::MemcpyAsync(bytes.data(), source, bytes.size(), stream()));
    Check(device::StreamSynchronize(stream()));
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = DecodeOne(type, bytes.data() + i * elem);
    return values;
  }

  void TearDown() override {
    if (stream_) Check(device::StreamSynchronize(stream()));
  }

  static void Check(const Status& status) { EXPECT_TRUE(status.ok()) << status.ToString(); }

  static void ExpectNear(DataType type, const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    int wrong = 0;
    for (size_t i = 0; i < got.size() && wrong < 5; ++i) {
      const double bound = RelativeTolerance(type) * std::max(1.0, std::abs(want[i]));
      if (std::abs(got[i] - want[i]) <= bound) continue;
      ++wrong;
      ADD_FAILURE() << "element " << i << ": got " << got[i] << ", want " << want[i];
    }
  }

 private:
  device::UniqueStream stream_;
  std::vector<device::UniqueDeviceMemory> memory_;
};

}  // namespace cudaep
