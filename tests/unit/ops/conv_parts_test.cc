// Convolutions of tensors that are channels of ones with more: by copies, then by the library's plans for such tensors.
#include <gtest/gtest.h>

#include "../lib/device_fixture.h"
#include "ops/conv/conv_run.h"
#include "runtime/plan_store.h"

namespace cudaep::ops {
namespace {

class ConvPartsTest : public DeviceTest {
 protected:
  static dnn::ConvProblem Problem() {
    dnn::ConvProblem p;
    p.types = lib::MixedTypes::Of(DataType::kFloat16);
    p.layout = dnn::Layout::kChannelsLast;
    p.batch = 2, p.in_channels = 16, p.out_channels = 24;
    for (size_t d = 0; d < 2; ++d) {
      p.in[d] = p.out[d] = 7, p.kernel[d] = 3, p.stride[d] = p.dilation[d] = p.pad_begin[d] = p.pad_end[d] = 1;
    }
    p.epilogue = {.beta = 1.0f, .bias = true, .activation = Activation::kSilu, .adds_last = true};
    p.x_pitch = 32, p.y_pitch = 56, p.residual_pitch = 40;
    return p;
  }

  // silu(conv(x, w) + bias) + residual, w as [out, in, 3, 3].
  static std::vector<double> Right(const dnn::ConvProblem& p, const std::vector<double>& x,
                                   const std::vector<double>& w, const std::vector<double>& bias,
                                   const std::vector<double>& residual) {
    std::vector<double> y;
    const int64_t in = p.in_channels, size = p.in[0];
    for (int64_t pixel = 0; pixel < p.batch * size * size; ++pixel) {
      const int64_t row = pixel / size % size, column = pixel % size;
      for (int64_t k = 0; k < p.out_channels; ++k) {
        double sum = bias[static_cast<size_t>(k)];
        for (int64_t tap = 0; tap < 9; ++tap) {
          const int64_t dr = tap / 3 - 1, dc = tap % 3 - 1;
          if (row + dr < 0 || row + dr >= size || column + dc < 0 || column + dc >= size) continue;
          for (int64_t c = 0; c < in; ++c) {
            sum += x[static_cast<size_t>((pixel + dr * size + dc) * in + c)] *
                   w[static_cast<size_t>((k * in + c) * 9 + tap)];
          }
        }
        y.push_back(sum / (1 + std::exp(-sum)) + residual[y.size()]);
      }
    }
    return y;
  }

  void CheckAll(const dnn::ConvProblem& p, const Settings& settings = {}) {
    const int64_t pixels = p.batch * p.in[0] * p.in[1];
    const auto x = TestValues(pixels * p.in_channels, 1), w = TestValues(p.out_channels * p.in_channels * 9, 2);
    const auto bias = TestValues(p.out_channels, 3), residual = TestValues(pixels * p.out_channels, 4);
    const auto right = WidenPixels(Right(p, x, w, bias, residual), p.out_channels, p.y_pitch);
    StreamContext context(0, stream());
    auto made = PlanConvRun(ConvOptions(settings), p, context);
    CUDAEP_ASSERT_OK(made.status());
    const auto& plan = PlanAs<ConvRunPlan>(**made);
    const auto part = [&](const std::vector<double>& values, int64_t channels, int64_t pitch) {
      return static_cast<std::byte*>(Upload(p.types.a, WidenPixels(values, channels, pitch))) + (pitch == 0 ? 0 : 16);
    };
    dnn::ConvPointers at{.x = part(x, p.in_channels, p.x_pitch),
                         .w = Upload(p.types.a, w),
                         .bias = Upload(p.types.a, bias),
                         .residual = part(residual, p.out_channels, p.residual_pitch),
                         .workspace = context.workspace().Reserve(plan.workspace_bytes).value()};
    for (const bool compiled : {false, true}) {
      SCOPED_TRACE(compiled);
      if (compiled) {
        PlanStore::Process().WaitForBackground();
        EXPECT_EQ(plan.library != nullptr && plan.library->As<dnn::ConvPlan>().takes_parts(), settings.enable_cudnn);
      }
      std::byte* const y =
          part(std::vector<double>(static_cast<size_t>(pixels * p.out_channels), 7.0), p.out_channels, p.y_pitch);
      at.y = y;
      CUDAEP_ASSERT_OK(EnqueueConvRun(plan, context, at));
      ExpectNear(p.types.a, Download(p.types.a, p.y_pitch == 0 ? y : y - 16, static_cast<int64_t>(right.size())),
                 right);
    }
  }
};

TEST_F(ConvPartsTest, AnyTensorMayBeOne) {
  CheckAll(Problem());
  for (int which = 0; which < 3; ++which) {
    SCOPED_TRACE(which);
    dnn::ConvProblem p = Problem();
    if (which != 0) p.x_pitch = 0;
    if (which != 1) p.y_pitch = 0;
    if (which != 2) p.residual_pitch = 0;
    CheckAll(p);
  }
}

TEST_F(ConvPartsTest, WithoutALibraryTheyAreCopied) {
  Settings settings;
  settings.enable_cudnn = false;
  CheckAll(Problem(), settings);
}

// A plan that is made when the library's for parts is there has no room for copies.
TEST_F(ConvPartsTest, RoomForCopiesIsAsLongAsTheyAreMade) {
  dnn::ConvProblem p = Problem();
  p.batch = 3;
  StreamContext context(0, stream());
  const auto bytes = [&] {
    auto made = PlanConvRun(ConvOptions(Settings()), p, context);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? (*made)->workspace_bytes : 0;
  };
  const size_t before = bytes();
  PlanStore::Process().WaitForBackground();
  EXPECT_LT(bytes(), before);
}

}  // namespace
}  // namespace cudaep::ops
