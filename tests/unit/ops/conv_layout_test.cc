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
  const int64_t pixels = p.batch * p.in[0] * p.in[1];
  const auto x = TestValues(pixels * 3, 1), w = TestValues(4 * 3, 2), bias = TestValues(4, 3);
  const auto residual = TestValues(pixels * 4, 4);
  std::vector<double> wanted;
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t k = 0; k < 4; ++k) {
      double sum = bias[static_cast<size_t>(k)] + residual[wanted.size()];
      for (int64_t c = 0; c < 3; ++c) sum += x[static_cast<size_t>(i * 3 + c)] * w[static_cast<size_t>(k * 3 + c)];
      wanted.push_back(std::max(sum, 0.0));
    }
  }
  for (const auto& [library, shift] : {std::pair{true, size_t{0}}, {true, 1}, {false, 0}, {false, 1}}) {
    Settings settings;
    settings.use_tf32 = false;
    settings.enable_cudnn = library;
    StreamContext context(0, stream());
    auto made = PlanConvRun(ConvOptions(settings), p, context);
    CUDAEP_ASSERT_OK(made.status());
    EXPECT_EQ(PlanAs<ConvRunPlan>(**made).route == ConvRoute::kTurned, !library);
    // `shift`: elements behind an aligned address.
    const auto upload = [&, by = shift](std::vector<double> values) {
      values.insert(values.begin(), by, 0.0);
      return static_cast<float*>(Upload(DataType::kFloat, values)) + by;
    };
    float* const y = upload(std::vector<double>(wanted.size(), 7.0));
    const dnn::ConvPointers at{.x = upload(x),
                               .w = upload(w),
                               .bias = upload(bias),
                               .residual = upload(residual),
                               .y = y,
                               .workspace = context.workspace().Reserve((*made)->workspace_bytes).value()};
    CUDAEP_ASSERT_OK(EnqueueConvRun(PlanAs<ConvRunPlan>(**made), context, at));
    ExpectNear(DataType::kFloat, Download(DataType::kFloat, y, static_cast<int64_t>(wanted.size())), wanted);
  }
}

}  // namespace
}  // namespace cudaep::ops
