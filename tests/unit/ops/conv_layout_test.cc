// Convolutions of channels-last tensors: which way each runs, and the epilogue that nodes of models do not have.
// Results of the rest are in the case tables.
#include <gtest/gtest.h>

#include "../lib/device_fixture.h"
#include "ops/conv/channels_last.h"

namespace cudaep::ops {
namespace {

class ConvLayoutTest : public DeviceTest {
 protected:
  static dnn::ConvProblem Conv(DataType type, int64_t in, int64_t out, int64_t kernel, int64_t groups = 1) {
    dnn::ConvProblem p;
    p.types = lib::MixedTypes::Of(type);
    p.layout = dnn::Layout::kChannelsLast;
    p.batch = 2, p.in_channels = in, p.out_channels = out, p.groups = groups;
    for (size_t d = 0; d < 2; ++d) {
      p.in[d] = p.out[d] = 7, p.kernel[d] = kernel, p.stride[d] = p.dilation[d] = 1;
      p.pad_begin[d] = p.pad_end[d] = kernel / 2;
    }
    return p;
  }
  ConvRoute RouteOf(const dnn::ConvProblem& p, const Settings& settings = {}) {
    StreamContext context(0, stream());
    auto plan = PlanConvRun(ConvOptions(settings), p, context);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan.ok() ? PlanAs<ConvRunPlan>(**plan).route : ConvRoute::kNothing;
  }

  // Of single pixels, with bias, residual and ReLU. Every tensor `shift` elements behind an aligned address; the
  // residual where the result comes, if `in_place`.
  void CheckPointwise(const dnn::ConvProblem& p, const Settings& settings, ConvRoute route, size_t shift,
                      bool in_place = false) {
    const DataType type = p.types.a;
    const int64_t pixels = p.batch * p.in[0] * p.in[1], in = p.in_channels, out = p.out_channels;
    SCOPED_TRACE(::testing::Message() << DataTypeName(type) << " shift " << shift << " in place " << in_place);
    const auto x = TestValues(pixels * in, 1), w = TestValues(out * in, 2), bias = TestValues(out, 3);
    const auto residual = TestValues(pixels * out, 4);
    std::vector<double> wanted;
    for (int64_t i = 0; i < pixels; ++i) {
      for (int64_t k = 0; k < out; ++k) {
        double sum = bias[static_cast<size_t>(k)] + residual[wanted.size()];
        for (int64_t c = 0; c < in; ++c) sum += x[static_cast<size_t>(i * in + c)] * w[static_cast<size_t>(k * in + c)];
        wanted.push_back(std::max(sum, 0.0));
      }
    }
    StreamContext context(0, stream());
    auto made = PlanConvRun(ConvOptions(settings), p, context);
    CUDAEP_ASSERT_OK(made.status());
    const auto& plan = PlanAs<ConvRunPlan>(**made);
    EXPECT_EQ(plan.route, route);
    const auto upload = [&](std::vector<double> values) {
      values.insert(values.begin(), shift, 0.0);
      return static_cast<std::byte*>(Upload(type, values)) + shift * SizeOf(type);
    };
    std::byte* const y = upload(in_place ? residual : std::vector<double>(wanted.size(), 7.0));
    const dnn::ConvPointers at{.x = upload(x),
                               .w = upload(w),
                               .bias = upload(bias),
                               .residual = in_place ? y : upload(residual),
                               .y = y,
                               .workspace = context.workspace().Reserve(plan.workspace_bytes).value()};
    CUDAEP_ASSERT_OK(EnqueueConvRun(plan, context, at));
    ExpectNear(type, Download(type, y, static_cast<int64_t>(wanted.size())), wanted);
  }

  // Just enough pixels for the own product, of whole tiles or not.
  dnn::ConvProblem ManyPixels(DataType type, int64_t in, int64_t out, int64_t more = 0) {
    dnn::ConvProblem p = Conv(type, in, out, 1);
    StreamContext context(0, stream());
    const int64_t tiles = 4 * context.device_info().multiprocessors / (out / 128);
    p.batch = 1, p.in[0] = p.out[0] = 1, p.in[1] = p.out[1] = 128 * tiles + more;
    return p;
  }
  bool HasWarpgroups() {
    StreamContext context(0, stream());
    return kernels::HasWarpgroups(context.device_info());
  }
};

TEST_F(ConvLayoutTest, TheLibraryTakesThemAsTheyAre) {
  StreamContext context(0, stream());
  for (DataType type : {DataType::kFloat, DataType::kFloat16}) {
    for (int64_t groups : {1, 2}) {
      auto made = PlanConvRun(ConvOptions(Settings()), Conv(type, 6, 10, 3, groups), context);
      CUDAEP_ASSERT_OK(made.status());
      const auto& plan = PlanAs<ConvRunPlan>(**made);
      EXPECT_EQ(plan.route, ConvRoute::kChannelsLast);
      EXPECT_FALSE(plan.channels_last.x.moves || plan.channels_last.y.moves);
      EXPECT_TRUE(plan.channels_last.w.moves);  // their channels come first until they are packed
    }
  }
}

TEST_F(ConvLayoutTest, DepthwiseOnesHaveAKernel) {
  EXPECT_EQ(RouteOf(Conv(DataType::kFloat16, 8, 8, 3, 8)), ConvRoute::kDepthwise);
  EXPECT_EQ(RouteOf(Conv(DataType::kFloat, 3, 3, 5, 3)), ConvRoute::kDepthwise);
  // Two outputs a channel, and windows that are too large.
  EXPECT_EQ(RouteOf(Conv(DataType::kFloat16, 8, 16, 3, 8)), ConvRoute::kChannelsLast);
  EXPECT_EQ(RouteOf(Conv(DataType::kFloat16, 8, 8, 9, 8)), ConvRoute::kChannelsLast);
}

TEST_F(ConvLayoutTest, WhatNoLibraryTakesRunsBetweenTransposes) {
  Settings settings;
  settings.enable_cudnn = false;
  EXPECT_EQ(RouteOf(Conv(DataType::kFloat, 6, 10, 3), settings), ConvRoute::kTurned);
  settings.conv_path = ConvPath::kColumns;
  EXPECT_EQ(RouteOf(Conv(DataType::kFloat16, 8, 16, 3), settings), ConvRoute::kTurned);
}

TEST_F(ConvLayoutTest, AResidualLiesAsTheResult) {
  dnn::ConvProblem p = Conv(DataType::kFloat, 3, 4, 1);
  p.epilogue = {.beta = 1.0f, .bias = true, .activation = Activation::kRelu};
  for (const bool library : {true, false}) {
    Settings settings;
    settings.use_tf32 = false;
    settings.enable_cudnn = library;
    for (const size_t shift : {0, 1}) {
      CheckPointwise(p, settings, library ? ConvRoute::kChannelsLast : ConvRoute::kTurned, shift);
    }
  }
}

TEST_F(ConvLayoutTest, PointwiseOnesOfFewChannelsHaveAKernel) {
  if (!HasWarpgroups()) GTEST_SKIP() << "no device of 9.0";
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    dnn::ConvProblem p = ManyPixels(type, 40, 256, 5);
    p.epilogue = {.beta = 1.0f, .bias = true, .activation = Activation::kRelu};
    CheckPointwise(p, {}, ConvRoute::kPointwise, 0);
    CheckPointwise(p, {}, ConvRoute::kPointwise, 0, true);
    CheckPointwise(p, {}, ConvRoute::kPointwise, 1);
  }
}

TEST_F(ConvLayoutTest, OtherPointwiseOnesAreTheLibrarys) {
  if (!HasWarpgroups()) GTEST_SKIP() << "no device of 9.0";
  const dnn::ConvProblem taken = ManyPixels(DataType::kFloat16, 64, 256);
  EXPECT_EQ(RouteOf(taken), ConvRoute::kPointwise);
  EXPECT_EQ(RouteOf(ManyPixels(DataType::kFloat16, 128, 256)), ConvRoute::kPointwise);
  EXPECT_EQ(RouteOf(ManyPixels(DataType::kFloat16, 512, 128)), ConvRoute::kPointwise);  // few columns
  const auto other = [&](auto change) {
    dnn::ConvProblem p = taken;
    change(p);
    return RouteOf(p);
  };
  constexpr ConvRoute kLibrary = ConvRoute::kChannelsLast;
  // What products take is more than what memory takes.
  EXPECT_EQ(RouteOf(ManyPixels(DataType::kFloat16, 136, 256)), kLibrary);
  EXPECT_EQ(RouteOf(ManyPixels(DataType::kFloat16, 520, 128)), kLibrary);
  EXPECT_EQ(other([](auto& p) { p.epilogue.beta = 1.0f; }), ConvRoute::kPointwise);
  // What no library takes either.
  const auto code = [&](auto change) {
    dnn::ConvProblem p = taken;
    change(p);
    StreamContext context(0, stream());
    return PlanConvRun(ConvOptions(Settings()), p, context).status().code();
  };
  EXPECT_EQ(code([](auto& p) { p.epilogue.beta = 0.5f; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto& p) { p.epilogue.alpha = 2; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto& p) { p.pad_begin[1] = 1, p.pad_end[1] = -1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(other([](auto& p) { p.epilogue.beta = 1.0f, p.in_channels = 72; }), kLibrary);
  EXPECT_EQ(RouteOf(ManyPixels(DataType::kFloat, 64, 256)), kLibrary);
  EXPECT_EQ(other([](auto& p) { p.in[1] = p.out[1] = p.out[1] / 4 * 3; }), kLibrary);  // a round less
  EXPECT_EQ(other([](auto& p) { p.out_channels = 192, p.in[1] = p.out[1] = 2 * p.out[1]; }), kLibrary);
  EXPECT_EQ(other([](auto& p) { p.in_channels = 60; }), kLibrary);
  EXPECT_EQ(other([](auto& p) { p.epilogue.activation = Activation::kSilu; }), kLibrary);
  // As many pixels as before.
  EXPECT_EQ(other([](auto& p) { p.stride[1] = 2, p.pad_begin[1] = p.in[1] / 2, p.pad_end[1] = p.in[1] / 2 - 1; }),
            kLibrary);
  EXPECT_EQ(other([](auto& p) { p.pad_begin[1] = 1, --p.in[1]; }), kLibrary);
  EXPECT_EQ(other([](auto& p) { p.kernel[1] = 3, p.pad_begin[1] = p.pad_end[1] = 1; }), kLibrary);
  EXPECT_EQ(other([](auto& p) { p.groups = 2; }), kLibrary);
  // The same whatever the library, its search and bits may be.
  Settings settings;
  settings.enable_cudnn = false, settings.deterministic = true;
  EXPECT_EQ(RouteOf(taken, settings), ConvRoute::kPointwise);
  settings = {}, settings.conv_search = ConvSearch::kExhaustive;
  EXPECT_EQ(RouteOf(taken, settings), ConvRoute::kPointwise);
  for (const ConvPath path : {ConvPath::kLibrary, ConvPath::kChannelsLast}) {
    settings.conv_path = path;
    EXPECT_EQ(RouteOf(taken, settings), kLibrary);
  }
}

}  // namespace
}  // namespace cudaep::ops
