// Convolutions of codes: products whose blocks go round several parts, scales that are any, and which tiles are chosen.
#include "kernels/conv/quantized_conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "../lib/device_fixture.h"
#include "device/device_info.h"

namespace cudaep::ops {
namespace {

using kernels::QuantizedConv, kernels::QuantizedConvTile, kernels::WarpgroupTiles;

std::vector<int8_t> Codes(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<int8_t> codes(static_cast<size_t>(count));
  for (int8_t& code : codes) code = static_cast<int8_t>(static_cast<int>(generator() % 256) - 128);
  return codes;
}

QuantizedConv Pixels(int32_t pixels, int32_t channels, int32_t out_channels) {
  QuantizedConv conv;
  conv.batch = 1, conv.in_h = conv.out_h = pixels, conv.in_w = conv.out_w = 1;
  conv.channels = channels, conv.out_channels = out_channels;
  return conv;
}

class QuantizedConvTest : public DeviceTest {
 protected:
  static const device::DeviceInfo& Info() {
    auto info = device::GetDeviceInfo(0);
    return **info;
  }

  template <class T>
  T* Copy(const std::vector<T>& values) {
    auto* const to = static_cast<T*>(Allocate(values.size() * sizeof(T)));
    Check(device::MemcpyAsync(to, values.data(), values.size() * sizeof(T), stream()));
    return to;
  }

  // One by one, by scales that are no powers of two: a code may be beside the wanted one where what is rounded lies
  // within kNear of a tie.
  void CheckPixels(const kernels::QuantizedConvChoice& choice, QuantizedConv conv, bool residual, int lowest) {
    SCOPED_TRACE(::testing::Message() << "tile " << static_cast<int>(choice.tile) << ", " << choice.points.blocks
                                      << " blocks, residual " << residual << ", lowest " << lowest);
    constexpr double kNear = 1e-4;
    const int64_t m = conv.pixels(), n = conv.out_channels, k = conv.channels;
    conv.x_zero = -7;
    conv.bounds = {.low = -30.0f, .high = 45.0f};
    conv.y = {.scale = 0.371f, .zero = lowest + 90, .lowest = lowest};
    conv.has_residual = residual;
    if (residual) {
      conv.y = {.scale = 0.371f, .zero = -11, .lowest = -128};
      conv.residual = {.scale = 0.193f, .zero = lowest + 60, .lowest = lowest};
      conv.sum = {.scale = 0.457f, .zero = lowest + 40, .lowest = lowest};
      conv.sum_bounds = {.low = -15.0f, .high = 1e9f};
    }
    const std::vector<int8_t> x = Codes(m * k, 1), w = Codes(n * k, 2), others = Codes(m * n, 3);
    std::vector<float> scale, bias;
    std::vector<int32_t> shift;
    for (int64_t c = 0; c < n; ++c) {
      scale.push_back(0.0007f + static_cast<float>(c % 13) * 0.0001f);
      bias.push_back(static_cast<float>(c % 50) * 0.3f - 7);
      int32_t sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += w[static_cast<size_t>(c * k + i)];
      shift.push_back(7 * sum);
    }
    constexpr size_t kBeyond = 4096;  // bytes behind the result that must stay
    std::vector<uint8_t> result(static_cast<size_t>(m * n) + kBeyond, 0xa5);
    uint8_t* const y = Copy(result);
    Check(kernels::LaunchQuantizedConv(conv, choice, true,
                                       {.x = Copy(x),
                                        .w = Copy(w),
                                        .scale = Copy(scale),
                                        .bias = Copy(bias),
                                        .shift = Copy(shift),
                                        .residual = residual ? Copy(others) : nullptr,
                                        .y = y},
                                       stream()));
    Check(device::MemcpyAsync(result.data(), y, result.size(), stream()));
    Check(device::StreamSynchronize(stream()));
    const auto rounded = [&](double number, const kernels::Coding& by, bool& near_tie) {
      const double code = number / double{by.scale};
      near_tie = near_tie || std::abs(std::abs(code - std::floor(code)) - 0.5) < kNear;
      return std::clamp(std::nearbyint(code) + by.zero, double(by.lowest), by.lowest + 255.0);
    };
    const auto from_lowest = [&](int8_t code) { return lowest == 0 ? int{static_cast<uint8_t>(code)} : int{code}; };
    int wrong = 0;
    for (int64_t p = 0; p < m && wrong < 5; ++p) {
      for (int64_t c = 0; c < n && wrong < 5; ++c) {
        const auto at = static_cast<size_t>(c), to = static_cast<size_t>(p * n + c);
        int32_t sum = shift[at];
        for (int64_t i = 0; i < k; ++i) sum += x[static_cast<size_t>(p * k + i)] * w[static_cast<size_t>(c * k + i)];
        bool near_tie = false;
        double number = std::clamp(sum * double{scale[at]} + double{bias[at]}, -30.0, 45.0);
        double wanted = rounded(number, conv.y, near_tie);
        if (residual) {
          number = (wanted - conv.y.zero) * double{conv.y.scale} +
                   (from_lowest(others[to]) - conv.residual.zero) * double{conv.residual.scale};
          wanted = rounded(std::max(number, -15.0), conv.sum, near_tie);
        }
        const int got = from_lowest(static_cast<int8_t>(result[to]));
        if (std::abs(got - wanted) > (near_tie ? 1 : 0)) {
          ++wrong;
          ADD_FAILURE() << "pixel " << p << ", channel " << c << ": " << got << " for " << wanted;
        }
      }
    }
    EXPECT_EQ(std::count(result.end() - kBeyond, result.end(), 0xa5), static_cast<std::ptrdiff_t>(kBeyond));
  }
};

TEST_F(QuantizedConvTest, ProductsGoRoundPartsOfPixelsAndChannels) {
  if (!kernels::HasWarpgroups(Info())) GTEST_SKIP() << "no device of 9.0";
  for (const auto& [tile, points] : {std::pair{QuantizedConvTile::kFinePoints, WarpgroupTiles::kFine},
                                     {QuantizedConvTile::kSmallPoints, WarpgroupTiles::kSmall},
                                     {QuantizedConvTile::kTallPoints, WarpgroupTiles::kTall}}) {
    for (const unsigned blocks : {1u, 2u}) {
      const kernels::QuantizedConvChoice choice{.tile = tile, .points = {.tiles = points, .blocks = blocks}};
      const int32_t pixels = points == WarpgroupTiles::kTall ? 600 : 300;  // three parts, and one more of channels
      CheckPixels(choice, Pixels(pixels, 48, 160), blocks == 1, blocks == 1 ? -128 : 0);
      CheckPixels(choice, Pixels(pixels, 144, 32), blocks == 2, blocks == 1 ? 0 : -128);
    }
  }
}

TEST_F(QuantizedConvTest, OtherTilesByScalesThatAreAny) {
  for (const QuantizedConvTile tile :
       {QuantizedConvTile::k32x32, QuantizedConvTile::k64x64, QuantizedConvTile::k128x128,
        QuantizedConvTile::k128x64Groups, QuantizedConvTile::k128x128Groups}) {
    const QuantizedConv conv = Pixels(130, 144, 144);
    auto choice = kernels::ChooseQuantizedConv(conv, Info(), tile);
    if (!choice.ok()) continue;  // of warpgroups
    for (const int lowest : {-128, 0}) {
      CheckPixels(*choice, conv, false, lowest);
      CheckPixels(*choice, conv, true, lowest);
    }
  }
}

TEST(QuantizedConvTilesTest, WarpgroupsOnlyWhereThereAreSuch) {
  device::DeviceInfo device;
  device.multiprocessors = 132;
  device.shared_bytes_per_block = size_t{227} << 10;
  const auto tile = [&](const QuantizedConv& conv) {
    auto choice = kernels::ChooseQuantizedConv(conv, device, std::nullopt);
    return choice->tile;
  };
  QuantizedConv windows = Pixels(100352, 128, 128);
  windows.kernel_h = 3, windows.pad_top = 1;
  for (const int major : {8, 10, 12}) {
    device.major = major;
    EXPECT_LE(tile(Pixels(100352, 64, 256)), QuantizedConvTile::k128x128) << major;
    EXPECT_LE(tile(windows), QuantizedConvTile::k128x128) << major;
    EXPECT_FALSE(kernels::ChooseQuantizedConv(windows, device, QuantizedConvTile::k128x64Groups).ok());
  }
  device.major = 9;
  EXPECT_EQ(tile(Pixels(100352, 64, 256)), QuantizedConvTile::kTallPoints);
  EXPECT_EQ(tile(Pixels(49, 2048, 512)), QuantizedConvTile::k32x32);
  EXPECT_EQ(tile(windows), QuantizedConvTile::k128x128Groups);
  for (const int channels : {48, 240, 250}) {  // no whole segments
    EXPECT_LE(tile(Pixels(100352, 64, channels)), QuantizedConvTile::k128x128Groups) << channels;
    EXPECT_FALSE(
        kernels::ChooseQuantizedConv(Pixels(100352, 64, channels), device, QuantizedConvTile::kTallPoints).ok());
  }
  device.shared_bytes_per_block = size_t{100} << 10;
  EXPECT_LE(tile(Pixels(100352, 64, 256)), QuantizedConvTile::k128x128Groups);
}

}  // namespace
}  // namespace cudaep::ops
