// Convolutions and products in every way that can be forced, compared with loops in double.
#pragma once

#include <gtest/gtest.h>

#include "../lib/device_fixture.h"
#include "lib/problem_check.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/conv_run.h"

namespace cudaep::ops {

inline Settings Exact() {
  Settings settings;
  settings.use_tf32 = false;
  return settings;
}

inline dnn::ConvProblem Conv(int64_t in, int64_t out, int64_t size, int64_t kernel, int64_t stride,
                             int64_t groups = 1) {
  dnn::ConvProblem p;
  p.batch = 1, p.in_channels = in, p.out_channels = out, p.groups = groups;
  for (size_t d = 0; d < 2; ++d) {
    p.in[d] = size, p.kernel[d] = kernel, p.stride[d] = stride, p.dilation[d] = 1;
    p.pad_begin[d] = p.pad_end[d] = kernel / 2;
    p.out[d] = (size + 2 * (kernel / 2) - kernel) / stride + 1;
  }
  p.epilogue.bias = true;
  return p;
}

// Channels first, in double.
inline std::vector<double> Convolve(const dnn::ConvProblem& p, const std::vector<double>& x,
                                    const std::vector<double>& w, const std::vector<double>& bias,
                                    const std::vector<double>& residual) {
  std::vector<double> y;
  const int64_t group_in = p.in_channels / p.groups, group_out = p.out_channels / p.groups;
  for (int64_t k = 0; k < p.out_channels; ++k) {
    for (int64_t i = 0; i < p.out[0] * p.out[1]; ++i) {
      double sum = bias[static_cast<size_t>(k)];
      for (int64_t c = 0; c < group_in; ++c) {
        for (int64_t tap = 0; tap < p.kernel[0] * p.kernel[1]; ++tap) {
          const int64_t h = i / p.out[1] * p.stride[0] + tap / p.kernel[1] - p.pad_begin[0];
          const int64_t v = i % p.out[1] * p.stride[1] + tap % p.kernel[1] - p.pad_begin[1];
          if (h < 0 || v < 0 || h >= p.in[0] || v >= p.in[1]) continue;
          const int64_t from = ((k / group_out * group_in + c) * p.in[0] + h) * p.in[1] + v;
          sum += x[static_cast<size_t>(from)] *
                 w[static_cast<size_t>((k * group_in + c) * p.kernel[0] * p.kernel[1] + tap)];
        }
      }
      if (p.epilogue.residual()) sum += residual[y.size()];
      if (p.epilogue.activation == Activation::kSilu) sum /= 1 + std::exp(-sum);
      y.push_back(p.epilogue.activation == Activation::kRelu ? std::max(sum, 0.0) : sum);
    }
  }
  return y;
}

class LibraryPathsTest : public DeviceTest {
 protected:
  // Runs the convolution with every tensor `shift` elements behind an aligned address.
  void CheckConv(const Settings& settings, const dnn::ConvProblem& p, ConvRoute route, int shift = 0,
                 bool packed = false) {
    StreamContext context(0, stream());
    auto made = PlanConvRun(ConvOptions(settings), p, context, packed);
    CUDAEP_ASSERT_OK(made.status());
    const auto& plan = PlanAs<ConvRunPlan>(**made);
    EXPECT_EQ(plan.route, route);
    CheckConv(plan, context, p, shift, packed);
  }
  void CheckConv(const ConvRunPlan& plan, StreamContext& context, const dnn::ConvProblem& p, int shift = 0,
                 bool packed = false) {
    const dnn::ConvSizes sizes = dnn::SizesOf(p);
    const auto x = TestValues(sizes.x, 1), w = TestValues(sizes.w, 2), bias = TestValues(p.out_channels, 3);
    const auto residual = TestValues(sizes.y, 4);
    const DataType type = p.types.a;
    const auto shifted = [&](std::vector<double> values) -> std::byte* {
      values.insert(values.begin(), static_cast<size_t>(shift), 0.0);
      return static_cast<std::byte*>(Upload(type, values)) + static_cast<size_t>(shift) * SizeOf(type);
    };
    dnn::ConvPointers at{.x = shifted(x), .w = shifted(w), .bias = shifted(bias), .residual = shifted(residual)};
    at.y = shifted(std::vector<double>(static_cast<size_t>(sizes.y), 7.0));
    Shape w_dims{p.out_channels, p.in_channels / p.groups, sizes.w / (p.out_channels * p.in_channels / p.groups)};
    if (packed) {
      const TensorView view{.data = Upload(type, w), .dim = w_dims.data(), .rank = w_dims.rank(), .type = type};
      void* const turned = Allocate(view.bytes());
      CUDAEP_ASSERT_OK(PackConvWeights(view, turned, context));
      at.w = turned;
    }
    at.workspace = context.workspace().Reserve(plan.workspace_bytes).value();
    CUDAEP_ASSERT_OK(EnqueueConvRun(plan, context, at));
    ExpectNear(type, Download(type, at.y, sizes.y), Convolve(p, x, w, bias, residual));
  }

  // `planned_rows`: of the product that this one is derived from; 0: none.
  void CheckProduct(const Settings& settings, const blas::GemmProblem& p, bool by_library, int64_t planned_rows = 0) {
    StreamContext context(0, stream());
    blas::GemmProblem planned = p;
    if (planned_rows != 0) planned.m = planned_rows;
    auto product = MatrixProduct::Make(context, planned, ProductOptions(settings));
    CUDAEP_ASSERT_OK(product.status());
    if (planned_rows != 0) product = product->OfRows(context, p.m);
    CUDAEP_ASSERT_OK(product.status());
    EXPECT_EQ(product->library() != nullptr, by_library);
    const auto a = TestValues(p.m * p.k, 1), b = TestValues(p.k * p.n, 2), bias = TestValues(p.n, 3);
    const auto residual = TestValues(p.m * p.n, 4);
    const DataType type = p.types.a;
    const blas::GemmPointers at{.a = Upload(type, a),
                                .b = Upload(type, b),
                                .c = Allocate(static_cast<size_t>(p.m * p.n) * SizeOf(type)),
                                .bias = Upload(type, bias),
                                .residual = Upload(type, residual),
                                .workspace = context.workspace().Reserve(product->workspace_bytes()).value()};
    CUDAEP_ASSERT_OK(product->Enqueue(context, at));
    std::vector<double> wanted;
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          sum += a[static_cast<size_t>(row * p.k + k)] * b[static_cast<size_t>(k * p.n + column)];
        }
        sum = p.epilogue.alpha * sum + bias[static_cast<size_t>(column)] + p.epilogue.beta * residual[wanted.size()];
        switch (p.epilogue.activation) {
          case Activation::kRelu:
            sum = std::max(sum, 0.0);
            break;
          case Activation::kGeluErf:
            sum *= 0.5 * (1 + std::erf(sum / std::sqrt(2.0)));
            break;
          case Activation::kSigmoid:
            sum = 1 / (1 + std::exp(-sum));
            break;
          case Activation::kSilu:
            sum /= 1 + std::exp(-sum);
            break;
          case Activation::kTanh:
            sum = std::tanh(sum);
            break;
          default:
            break;
        }
        wanted.push_back(sum);
      }
    }
    ExpectNear(type, Download(type, at.c, p.m * p.n), wanted);
  }

  static blas::GemmProblem Product(DataType type, int64_t m, Activation activation = Activation::kNone) {
    return {.types = lib::MixedTypes::Of(type),
            .m = m,
            .n = 24,
            .k = 16,
            .lda = 16,
            .ldb = 24,
            .ldc = 24,
            .epilogue = {.alpha = 0.5f, .beta = 1.0f, .bias = true, .activation = activation}};
  }
};

}  // namespace cudaep::ops
