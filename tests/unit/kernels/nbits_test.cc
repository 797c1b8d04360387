// What the launchers of MatMulNBits do with nothing, and with more than they are for.
#include <gtest/gtest.h>

#include "../device/device_fixture.h"
#include "device/device_info.h"
#include "kernels/quant/gated_nbits.h"

namespace cudaep::kernels {
namespace {

class NBitsTest : public device::testing::DeviceTest {};

TEST_F(NBitsTest, WhatHasNoElementLaunchesNothing) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{0, 8}, {3, 0}, {0, 0}}) {
    const MatMulNBits problem{.m = m, .n = n, .k = 32};
    EXPECT_OK(LaunchMatMulNBits(problem, {}, stream()));
    EXPECT_OK(LaunchMatMulNBitsRows(problem, {}, stream()));
    if (n == 0) EXPECT_OK(LaunchDequantizeNBits(problem, {}, nullptr, stream()));
  }
  EXPECT_OK(LaunchDequantizeNBits({.n = 8, .k = 0}, {}, nullptr, stream()));
  ASSERT_OK(device::StreamSynchronize(stream()));
}

TEST_F(NBitsTest, ManyRowsAreNotFew) {
  for (const int64_t m : {kNBitsMatrixRows, int64_t{4} * 65536}) {
    const Status refused = LaunchMatMulNBitsRows({.m = m, .n = 8, .k = 32}, {}, stream());
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("not few"), std::string_view::npos);
  }
}

TEST_F(NBitsTest, WhatTensorCoresDoNotTakeIsRefused) {
  const auto info = device::GetDeviceInfo(0);
  ASSERT_TRUE(info.ok());
  const MatMulNBits fits{.type = DataType::kFloat16, .packed = true, .packed_scales = true, .m = 64, .n = 8, .k = 32};
  EXPECT_TRUE(FitsNBitsTensorCores(fits, *info.value()));
  const auto with = [&](auto&& change) {
    MatMulNBits problem = fits;
    change(problem);
    EXPECT_FALSE(FitsNBitsTensorCores(problem, *info.value()));
    EXPECT_EQ(LaunchMatMulNBitsTensorCores(problem, {}, *info.value(), stream()).code(), StatusCode::kInvalidArgument);
  };
  with([](MatMulNBits& p) { p.type = DataType::kFloat; });
  with([](MatMulNBits& p) { p.bits = 2; });
  with([](MatMulNBits& p) { p.block = 16; });
  with([](MatMulNBits& p) { p.m = kNBitsTensorRows + 1; });
  with([](MatMulNBits& p) { p.n = 6; });
  with([](MatMulNBits& p) { p.packed = false; });
  with([](MatMulNBits& p) { p.packed_scales = false; });
  with([](MatMulNBits& p) { p.zero_point = NBitsZeroPoint::kPacked; });  // not packed for the kernels
  with([](MatMulNBits& p) { p.zero_point = NBitsZeroPoint::kFloating; });
  with([](MatMulNBits& p) { p.n = int64_t{1} << 31; });
  device::DeviceInfo old = *info.value();
  old.major = 7;
  EXPECT_FALSE(FitsNBitsTensorCores(fits, old));
  device::DeviceInfo small = *info.value();
  small.shared_bytes_per_block = size_t{48} << 10;
  EXPECT_FALSE(FitsNBitsTensorCores(fits, small));  // more rows take more of it
}

TEST_F(NBitsTest, WhatHasNoGateInOneLaunchIsRefused) {
  const auto info = device::GetDeviceInfo(0);
  ASSERT_TRUE(info.ok());
  const MatMulNBits product{
      .type = DataType::kFloat16, .packed = true, .packed_scales = true, .m = kNBitsGatedRows, .n = 8, .k = 32};
  EXPECT_TRUE(FitsGatedNBits({.product = product}, *info.value()));
  const auto with = [&](auto&& change) {
    GatedNBits gated{.product = product};
    change(gated);
    EXPECT_FALSE(FitsGatedNBits(gated, *info.value()));
    EXPECT_EQ(LaunchGatedNBits(gated, {}, *info.value(), stream()).code(), StatusCode::kInvalidArgument);
  };
  with([](GatedNBits& g) { g.product.m = kNBitsGatedRows + 1; });
  with([](GatedNBits& g) { g.product.bits = 8; });
  with([](GatedNBits& g) { g.product.bits = 2; });
  with([](GatedNBits& g) { g.product.packed = false; });
  with([](GatedNBits& g) { g.product.type = DataType::kFloat; });
  with([](GatedNBits& g) { g.product.zero_point = NBitsZeroPoint::kFloating; });
  with([](GatedNBits& g) { g.activation = Activation::kClip; });  // has parameters
}

}  // namespace
}  // namespace cudaep::kernels
