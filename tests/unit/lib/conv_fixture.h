// Convolution problems of both directions, and double-precision loops to judge them by: forward as a gather,
// transposed as a scatter.
#pragma once

#include <string>

#include "device_fixture.h"
#include "lib/dnn.h"
#include "lib/problem_check.h"

namespace cudaep::dnn {

struct ConvCase {
  const char* name;
  int rank;
  int64_t batch, in_channels, out_channels, groups;
  Spatial in, kernel, pad_begin, pad_end, stride, dilation;
  bool bias = false;
  bool transposed = false;
  Spatial output_padding = {};
};

inline constexpr Spatial k0 = {0, 0, 0}, k1 = {1, 1, 1}, k2 = {2, 2, 2}, k3 = {3, 3, 3};

inline const ConvCase kCases[] = {
    {"plain_3x3", 2, 2, 3, 4, 1, {7, 9}, k3, k1, k1, k1, k1},
    {"bias", 2, 1, 4, 8, 1, {6, 6}, k3, k1, k1, k1, k1, true},
    {"stride_2_odd", 2, 1, 5, 7, 1, {11, 13}, k3, k1, k1, k2, k1, true},
    {"no_padding", 2, 1, 3, 5, 1, {8, 8}, {5, 3}, k0, k0, k1, k1},
    {"dilated", 2, 1, 4, 4, 1, {12, 10}, k3, k2, k2, k1, k2, true},
    {"mixed_axes", 2, 1, 4, 6, 2, {14, 9}, {3, 2}, {2, 0}, {2, 0}, {3, 1}, {1, 2}},
    {"asymmetric", 2, 1, 4, 8, 1, {8, 8}, k3, {0, 1}, {2, 0}, k1, k1, true},
    {"same_upper_stride_2", 2, 1, 8, 8, 1, {8, 8}, k3, k0, k1, k2, k1},
    {"tail_not_reached", 2, 1, 4, 4, 1, {8, 8}, k3, k1, k0, k2, k1},
    {"pointwise", 2, 2, 16, 24, 1, {5, 7}, k1, k0, k0, k1, k1, true},
    {"pointwise_stride_2", 2, 1, 8, 8, 1, {7, 7}, k1, k0, k0, k2, k1},
    {"pointwise_groups", 2, 2, 8, 12, 4, {5, 5}, k1, k0, k0, k1, k1, true},
    {"groups", 2, 2, 6, 9, 3, {7, 7}, k3, k1, k1, k1, k1, true},
    {"depthwise", 2, 2, 16, 16, 16, {9, 11}, k3, k1, k1, k1, k1, true},
    {"depthwise_stride_2_5x5", 2, 1, 8, 8, 8, {11, 11}, {5, 5}, k2, k2, k2, k1},
    {"depthwise_multiplier", 2, 1, 6, 12, 6, {8, 8}, k3, k1, k1, k1, k1, true},
    {"depthwise_dilated", 2, 1, 8, 8, 8, {10, 10}, k3, k2, k2, k1, k2},
    {"kernel_as_large_as_input", 2, 3, 4, 5, 1, {6, 6}, {6, 6}, k0, k0, k1, k1, true},
    {"wide", 2, 1, 3, 4, 1, {2, 700}, k3, k1, k1, k1, k1},
    {"one_dimension", 1, 2, 4, 6, 1, {33}, {5}, {2}, {2}, {1}, {1}, true},
    {"one_dimension_stride_dilation", 1, 1, 6, 6, 3, {40}, {3}, {1}, {1}, {2}, {3}},
    {"one_dimension_causal", 1, 1, 4, 4, 1, {16}, {4}, {3}, {0}, {1}, {1}},
    {"three_dimensions", 3, 1, 4, 6, 1, {5, 6, 7}, k3, k1, k1, k1, k1, true},
    {"three_dimensions_stride", 3, 2, 4, 4, 2, {6, 5, 8}, {2, 3, 3}, {0, 1, 1}, {0, 1, 1}, k2, k1},
    {"transposed", 2, 2, 4, 6, 1, {5, 6}, k3, k1, k1, k2, k1, true, true},
    {"transposed_2x2", 2, 1, 8, 4, 1, {6, 6}, k2, k0, k0, k2, k1, true, true},
    {"transposed_output_padding", 2, 1, 4, 4, 1, {5, 5}, k3, k1, k1, k2, k1, false, true, {1, 1}},
    {"transposed_stride_1", 2, 1, 3, 5, 1, {7, 7}, k3, k1, k1, k1, k1, false, true},
    {"transposed_groups", 2, 1, 6, 4, 2, {5, 5}, {4, 4}, k1, k1, k2, k1, true, true},
    {"transposed_depthwise", 2, 1, 8, 8, 8, {5, 6}, {4, 4}, k1, k1, k2, k1, true, true},
    {"transposed_depthwise_multiplier", 2, 1, 4, 8, 4, {5, 6}, k3, k1, k1, k2, k1, false, true},
    {"transposed_dilated", 2, 1, 4, 4, 1, {6, 6}, k3, k1, k1, k1, k2, false, true},
    {"transposed_asymmetric", 2, 1, 4, 4, 1, {6, 6}, k3, {0, 1}, {1, 0}, k2, k1, false, true},
    {"transposed_pointwise", 2, 1, 8, 4, 1, {5, 5}, k1, k0, k0, k1, k1, true, true},
    {"transposed_one_dimension", 1, 1, 4, 6, 1, {9}, {8}, {2}, {2}, {4}, {1}, true, true},
    {"transposed_three_dimensions", 3, 1, 4, 4, 1, {3, 4, 5}, k3, k1, k1, k2, k1, false, true},
};

inline ConvProblem ProblemOf(const ConvCase& c, DataType type, Layout layout) {
  ConvProblem p;
  p.types = lib::MixedTypes::Of(type);
  p.layout = layout;
  p.direction = c.transposed ? Direction::kBackward : Direction::kForward;
  p.spatial_rank = c.rank;
  p.batch = c.batch, p.in_channels = c.in_channels, p.out_channels = c.out_channels, p.groups = c.groups;
  p.epilogue.bias = c.bias;
  for (int d = 0; d < c.rank; ++d) {
    p.in[d] = c.in[d], p.kernel[d] = c.kernel[d], p.stride[d] = c.stride[d], p.dilation[d] = c.dilation[d];
    p.pad_begin[d] = c.pad_begin[d], p.pad_end[d] = c.pad_end[d];
    const int64_t span = c.dilation[d] * (c.kernel[d] - 1) + 1, pads = c.pad_begin[d] + c.pad_end[d];
    p.out[d] = c.transposed ? (c.in[d] - 1) * c.stride[d] + span - pads + c.output_padding[d]
                            : (c.in[d] + pads - span) / c.stride[d] + 1;
  }
  return p;
}

// Position of an element in a tensor whose channels may be innermost.
struct Indexer {
  int rank;
  int64_t channels;
  Spatial sizes;
  bool last;

  int64_t spatial_elems() const {
    int64_t count = 1;
    for (int d = 0; d < rank; ++d) count *= sizes[d];
    return count;
  }
  Spatial Split(int64_t flat) const {
    Spatial at{};
    for (int d = rank - 1; d >= 0; --d) {
      at[d] = flat % sizes[d];
      flat /= sizes[d];
    }
    return at;
  }
  int64_t At(int64_t outer, int64_t channel, int64_t flat) const {
    const int64_t spatial = spatial_elems();
    return last ? (outer * spatial + flat) * channels + channel : (outer * channels + channel) * spatial + flat;
  }
};

// Calls visit(x index, w index, y index) for every product; written over the *input* of a transposed convolution.
template <class Visit>
void ForEachProduct(const ConvProblem& p, Visit visit) {
  const bool forward = p.direction == Direction::kForward, last = p.layout == Layout::kChannelsLast;
  const int64_t group_in = p.in_channels / p.groups, group_out = p.out_channels / p.groups;
  const Indexer x{p.spatial_rank, p.in_channels, p.in, last}, y{p.spatial_rank, p.out_channels, p.out, last};
  const Indexer w{p.spatial_rank, forward ? group_in : group_out, p.kernel, last};
  // In the forward view, windows lie on `wide` and there is one for each element of `narrow`.
  const Indexer& narrow = forward ? y : x;
  const Indexer& wide = forward ? x : y;
  for (int64_t window = 0; window < narrow.spatial_elems(); ++window) {
    for (int64_t tap = 0; tap < w.spatial_elems(); ++tap) {
      const Spatial at_window = narrow.Split(window), at_tap = w.Split(tap);
      int64_t flat = 0;
      bool inside = true;
      for (int d = 0; d < p.spatial_rank; ++d) {
        const int64_t at = at_window[d] * p.stride[d] - p.pad_begin[d] + at_tap[d] * p.dilation[d];
        inside = inside && at >= 0 && at < wide.sizes[d];
        flat = flat * wide.sizes[d] + at;
      }
      if (!inside) continue;
      for (int64_t n = 0; n < p.batch; ++n) {
        for (int64_t k = 0; k < p.out_channels; ++k) {
          const int64_t group = k / group_out;
          for (int64_t c = group * group_in; c < (group + 1) * group_in; ++c) {
            visit(x.At(n, c, forward ? flat : window),
                  forward ? w.At(k, c % group_in, tap) : w.At(c, k % group_out, tap),
                  y.At(n, k, forward ? window : flat));
          }
        }
      }
    }
  }
}

inline constexpr ActivationParameters kParameters{-0.25f, 0.5f};

inline double Unit(double x) { return std::isnan(x) ? x : std::clamp(x, 0.0, 1.0); }

inline std::vector<double> Reference(const ConvProblem& p, const Epilogue& epilogue, const std::vector<double>& x,
                                     const std::vector<double>& w, const std::vector<double>& bias,
                                     const std::vector<double>& residual = {}) {
  const Indexer index{p.spatial_rank, p.out_channels, p.out, p.layout == Layout::kChannelsLast};
  std::vector<double> y(static_cast<size_t>(SizesOf(p).y));
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t k = 0; k < p.out_channels; ++k) {
      for (int64_t i = 0; i < index.spatial_elems(); ++i) y[index.At(n, k, i)] = epilogue.bias ? bias[k] : 0.0;
    }
  }
  ForEachProduct(p, [&](int64_t at_x, int64_t at_w, int64_t at_y) { y[at_y] += x[at_x] * w[at_w]; });
  for (size_t i = 0; i < y.size(); ++i) {
    if (epilogue.residual() && !epilogue.adds_last) y[i] += residual[i];
    if (epilogue.activation == Activation::kRelu) y[i] = std::max(y[i], 0.0);
    if (epilogue.activation == Activation::kSilu) y[i] /= 1 + std::exp(-y[i]);
    if (epilogue.activation == Activation::kClip) y[i] = std::clamp<double>(y[i], kParameters.a, kParameters.b);
    if (epilogue.activation == Activation::kLeakyRelu && y[i] < 0) y[i] *= kParameters.a;
    if (epilogue.activation == Activation::kHardSigmoid) y[i] = Unit(kParameters.a * y[i] + kParameters.b);
    if (epilogue.activation == Activation::kHardSwish) y[i] *= Unit(y[i] / 6 + 0.5);
    if (epilogue.residual() && epilogue.adds_last) y[i] += residual[i];
  }
  return y;
}

// What a plan does of its problem's epilogue.
inline Epilogue DoneBy(const ConvPlan& plan, const ConvProblem& p) {
  Epilogue done = p.epilogue;
  if (plan.remaining().bias) done.bias = false;
  if (plan.remaining().residual()) done.beta = 0.0f;
  if (plan.remaining().activation != Activation::kNone) done.activation = Activation::kNone;
  return done;
}

class ConvTest : public DeviceTest {
 protected:
  struct Tensors {
    std::vector<double> x, w, bias, residual;
    ConvPointers at;
  };

  Tensors Upload(const ConvProblem& p, size_t workspace_bytes) {
    const ConvSizes sizes = SizesOf(p);
    Tensors t{
        TestValues(sizes.x, 1), TestValues(sizes.w, 2), TestValues(p.out_channels, 3), TestValues(sizes.y, 4), {}};
    t.at.x = DeviceTest::Upload(p.types.a, t.x);
    t.at.w = DeviceTest::Upload(p.types.a, t.w);
    t.at.bias = DeviceTest::Upload(p.types.a, t.bias);
    t.at.residual = DeviceTest::Upload(p.types.a, t.residual);
    t.at.y = Allocate(static_cast<size_t>(sizes.y) * SizeOf(p.types.a));
    t.at.workspace = Allocate(workspace_bytes);
    return t;
  }

  void CheckOnce(const ConvProblem& p, size_t workspace_limit, const std::string& choice = {}) {
    auto handle = CreateHandle();
    CUDAEP_ASSERT_OK(handle.status());
    CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
    auto plan = MakePlan(**handle, p, workspace_limit, choice);
    if (choice.empty() && plan.status().code() == StatusCode::kNotSupported && !Simulated())
      GTEST_SKIP() << plan.status().message();
    CUDAEP_ASSERT_OK(plan.status());
    ASSERT_LE((*plan)->workspace_bytes(), workspace_limit);
    const Tensors t = Upload(p, (*plan)->workspace_bytes());
    CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, t.at));
    ExpectNear(p.types.a, Download(p.types.a, t.at.y, SizesOf(p).y),
               Reference(p, DoneBy(**plan, p), t.x, t.w, t.bias, t.residual));
  }

  static bool Simulated() { return std::string_view(device::BackendName()) == "simulated"; }
};

inline const ConvCase& CaseNamed(std::string_view name) {
  return *std::find_if(std::begin(kCases), std::end(kCases), [&](const ConvCase& c) { return c.name == name; });
}

inline ConvProblem Fused(Activation activation, Layout layout) {
  ConvProblem p = ProblemOf(CaseNamed("plain_3x3"), DataType::kFloat16, layout);
  p.in_channels = 16, p.out_channels = 32;
  p.epilogue = {.beta = 1.0f, .bias = true, .activation = activation, .parameters = {}};
  if (ParameterCount(activation) > 0) p.epilogue.parameters = kParameters;
  return p;
}

}  // namespace cudaep::dnn
