// Tensor cores, asynchronous copies and their barriers against plain loops; on both devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "device/device.h"
#include "vocabulary_kernels.h"

namespace cudaep::device::testing {
namespace {

class VocabularyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ASSERT_TRUE(GetDeviceCount(&count).ok());
    if (count == 0) GTEST_SKIP() << "no GPU";
    Check(StreamCreate(stream_.Receive()));
  }
  void TearDown() override {
    if (stream_.get() != nullptr) Check(StreamSynchronize(stream_.get()));
  }
  static void Check(const Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

  template <class T>
  T* Upload(const std::vector<T>& values) {
    memory_.emplace_back();
    Check(Malloc(memory_.back().Receive(), values.size() * sizeof(T)));
    auto* const pointer = static_cast<T*>(memory_.back().get());
    Check(MemcpyAsync(pointer, values.data(), values.size() * sizeof(T), stream_.get()));
    return pointer;
  }
  template <class T>
  T* Allocate(size_t count) {
    return Upload(std::vector<T>(count));
  }
  template <class T>
  std::vector<T> Download(const T* pointer, size_t count) {
    std::vector<T> values(count);
    Check(MemcpyAsync(values.data(), pointer, count * sizeof(T), stream_.get()));
    Check(StreamSynchronize(stream_.get()));
    return values;
  }
  Stream stream() { return stream_.get(); }

  // Small integers, of which every product and sum is exact, none like its neighbours.
  template <class T>
  static std::vector<T> Operand(size_t count, int seed) {
    std::vector<T> values(count);
    for (size_t i = 0; i < count; ++i) {
      const int value = static_cast<int>((i * 37 + static_cast<size_t>(seed) * 101) % 61) - 30;
      if constexpr (std::is_same_v<T, float>) {
        values[i] = static_cast<float>(value) * (1 - 0x1p-13f);  // `value` in TF32, if it is rounded
      } else if constexpr (sizeof(T) == 2) {
        values[i] = Store<T>(static_cast<float>(value));
      } else {
        values[i] = static_cast<T>(value * 4);  // beyond 127 as an unsigned byte
      }
    }
    return values;
  }
  template <class T>
  static auto Number(T value) {
    if constexpr (std::is_same_v<T, float>) {
      return std::round(value);
    } else if constexpr (sizeof(T) == 2) {
      return Load(value);
    } else {
      return static_cast<int32_t>(value);
    }
  }
  template <class A, class B, class Sum>
  static std::vector<Sum> Product(const std::vector<A>& a, const std::vector<B>& b, std::vector<Sum> d) {
    const size_t depth = a.size() / 16;
    for (size_t row = 0; row < 16; ++row) {
      for (size_t column = 0; column < 8; ++column) {
        for (size_t k = 0; k < depth; ++k) {
          d[row * 8 + column] += Number(a[row * depth + k]) * Number(b[k * 8 + column]);
        }
      }
    }
    return d;
  }

  template <class T>
  void CheckMma() {
    constexpr size_t kDepth = 32 / sizeof(T);
    const auto a = Operand<T>(16 * kDepth, 1), b = Operand<T>(kDepth * 8, 2);
    std::vector<float> d(16 * 8);
    for (size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>(i) / 4;
    const auto wanted = Product(a, b, d);
    float* direct = Upload(d);
    Check(LaunchMma<T>(stream(), Upload(a), Upload(b), direct));
    EXPECT_EQ(Download(direct, d.size()), wanted);
    if constexpr (sizeof(T) == 2) {
      float* loaded = Upload(d);
      Check(LaunchLoadedMma<T>(stream(), Upload(a), Upload(b), loaded));
      EXPECT_EQ(Download(loaded, d.size()), wanted);
    }
  }
  template <class A, class B>
  void CheckByteMma() {
    const auto a = Operand<A>(16 * 32, 3);
    const auto b = Operand<B>(32 * 8, 4);
    const std::vector<int32_t> d(16 * 8, 7);
    int32_t* result = Upload(d);
    Check(LaunchByteMma<A, B>(stream(), Upload(a), Upload(b), result));
    EXPECT_EQ(Download(result, d.size()), Product(a, b, d));
  }

 private:
  UniqueStream stream_;
  std::vector<UniqueDeviceMemory> memory_;
};

TEST_F(VocabularyTest, MultipliesSixteenBitFloats) {
  CheckMma<Half>();
  CheckMma<BFloat16>();
}

TEST_F(VocabularyTest, MultipliesInTf32) { CheckMma<float>(); }

TEST_F(VocabularyTest, MultipliesBytesOfBothSigns) {
  CheckByteMma<int8_t, int8_t>();
  CheckByteMma<int8_t, uint8_t>();
  CheckByteMma<uint8_t, int8_t>();
  CheckByteMma<uint8_t, uint8_t>();
}

TEST_F(VocabularyTest, LoadsMatricesAndTransposes) {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      std::vector<uint16_t> in(static_cast<size_t>(count) * 64);
      for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i * 257 + 1);
      uint32_t* out = Allocate<uint32_t>(static_cast<size_t>(count) * 32);
      Check(LaunchLoadMatrix(stream(), Upload(in), out, count, transposed));
      const auto words = Download(out, static_cast<size_t>(count) * 32);
      for (size_t lane = 0; lane < 32; ++lane) {
        for (size_t m = 0; m < static_cast<size_t>(count); ++m) {
          const size_t g = lane / 4, t = lane % 4 * 2;
          const auto at = [&](size_t i) { return in[m * 64 + (transposed ? (t + i) * 8 + g : g * 8 + t + i)]; };
          ASSERT_EQ(words[lane * static_cast<size_t>(count) + m], at(0) | uint32_t{at(1)} << 16)
              << "lane " << lane << " matrix " << m << " of " << count << (transposed ? " transposed" : "");
        }
      }
    }
  }
}

TEST_F(VocabularyTest, CopiesAheadInGroupsAndThroughBarriers) {
  for (const int tiles : {1, 2, 3, 4, 7, 20}) {
    std::vector<float> in(static_cast<size_t>(tiles * kTile)), doubled(in.size()), reversed(in.size());
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
    for (size_t i = 0; i < in.size(); ++i) {
      doubled[i] = 2 * in[i];
      reversed[i] = 2 * in[i / kTile * kTile + kTile - 1 - i % kTile];
    }
    float* source = Upload(in);
    float* out = Allocate<float>(in.size());
    Check(LaunchGroupCopies(stream(), source, out, tiles));
    EXPECT_EQ(Download(out, in.size()), doubled) << tiles;
    out = Allocate<float>(in.size());
    Check(LaunchBulkCopies(stream(), source, out, tiles));
    EXPECT_EQ(Download(out, in.size()), doubled) << tiles;
    out = Allocate<float>(in.size());
    Check(LaunchClusterStores(stream(), source, out, tiles));
    EXPECT_EQ(Download(out, in.size()), doubled) << tiles;
    out = Allocate<float>(in.size());
    Check(LaunchBarrierCopies(stream(), source, out, tiles));
    EXPECT_EQ(Download(out, in.size()), reversed) << tiles;
  }
}

TEST_F(VocabularyTest, WhatIsNotValidBecomesZero) {
  const std::vector<float> in{1, 2, 3, 4};
  for (const int valid : {0, 4, 8, 12, 16}) {
    float* out = Allocate<float>(12);
    Check(LaunchPartialCopy(stream(), Upload(in), out, valid));
    const auto words = Download(out, 12);
    const auto wanted = [&](int i) { return i * 4 < valid ? in[static_cast<size_t>(i)] : 0.0f; };
    EXPECT_EQ(words[0], wanted(0));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(words[static_cast<size_t>(4 + i)], wanted(i)) << valid;
    for (int i = 0; i < 4; ++i) EXPECT_EQ(words[static_cast<size_t>(8 + i)], wanted(i)) << valid;
    EXPECT_EQ(words[1], 5.0f);  // beside it nothing is written
  }
}

TEST_F(VocabularyTest, BytesOfWords) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  const std::vector<int32_t> in{0, 255, 256, -1, kLeast, kMost, 1, 254, 0x7f80ff01, 0x01000100, -128, 0x00010001, 511};
  uint32_t* const out = Allocate<uint32_t>(in.size() * 4);
  Check(LaunchWords(stream(), Upload(in), out, static_cast<int>(in.size())));
  const auto words = Download(out, in.size() * 4);
  for (size_t i = 0; i + 1 < in.size(); ++i) {
    const auto byte = [](int32_t x) { return static_cast<uint32_t>(std::clamp(x, 0, 255)); };
    const uint32_t a = byte(in[i]), b = byte(in[i + 1]);
    EXPECT_EQ(words[4 * i], a | b << 8) << in[i] << ' ' << in[i + 1];
    EXPECT_EQ(words[4 * i + 1], b | a << 8 | a << 16 | b << 24) << in[i] << ' ' << in[i + 1];
    int with_signs = 0, without = 0;
    for (int at = 0; at < 32; at += 8) {
      const auto of_word = static_cast<uint8_t>(static_cast<uint32_t>(in[i]) >> at);
      if ((static_cast<uint32_t>(in[i + 1]) >> at & 1) == 0) continue;
      with_signs += static_cast<int8_t>(of_word);
      without += of_word;
    }
    EXPECT_EQ(static_cast<int32_t>(words[4 * i + 2]), with_signs) << in[i] << ' ' << in[i + 1];
    EXPECT_EQ(static_cast<int32_t>(words[4 * i + 3]), without) << in[i] << ' ' << in[i + 1];
  }
}

TEST_F(VocabularyTest, ExponentialsAndPairs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> in{0, 1, -1, 0.3f, 20.7f, -125.5f, -127, -200, -infinity, infinity, std::nanf("")};
  std::vector<uint32_t> pairs(in.size());
  for (size_t i = 0; i < in.size(); ++i) pairs[i] = static_cast<uint32_t>((0x3c00u + i * 3) | (0xc100u - i) << 16);
  pairs[3] = 0x7fff7fffu;  // NaN loses
  float* exponentials = Allocate<float>(in.size());
  uint32_t* halves = Allocate<uint32_t>(in.size());
  uint32_t* bfloats = Allocate<uint32_t>(in.size());
  Check(LaunchMath(stream(), Upload(in), exponentials, Upload(pairs), halves, bfloats, static_cast<int>(in.size())));
  const auto results = Download(exponentials, in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (std::isnan(in[i])) {
      EXPECT_TRUE(std::isnan(results[i]));
    } else if (in[i] < -126) {
      EXPECT_EQ(results[i], 0) << in[i];
    } else {
      const double wanted = std::exp2(static_cast<double>(in[i]));
      if (std::isinf(wanted)) {
        EXPECT_EQ(results[i], wanted);
      } else {
        EXPECT_NEAR(results[i], wanted, wanted * 3e-7) << in[i];
      }
    }
  }
  const auto larger_halves = Download(halves, in.size() - 1), larger_bfloats = Download(bfloats, in.size() - 1);
  const auto larger = [](auto a, auto b) { return std::fmax(Load(a), Load(b)); };
  for (size_t i = 0; i + 1 < in.size(); ++i) {
    for (const int shift : {0, 16}) {
      const auto part = [shift](uint32_t word) { return static_cast<uint16_t>(word >> shift); };
      EXPECT_EQ(Load(Half{part(larger_halves[i])}), larger(Half{part(pairs[i])}, Half{part(pairs[i + 1])})) << i;
      EXPECT_EQ(Load(BFloat16{part(larger_bfloats[i])}), larger(BFloat16{part(pairs[i])}, BFloat16{part(pairs[i + 1])}))
          << i;
    }
  }
}

}  // namespace
}  // namespace cudaep::device::testing
