// Convolution problems of both directions against double-precision loops: forward as a gather, transposed as a scatter.
#include <chrono>

#include "core/strings.h"
#include "device_fixture.h"
#include "lib/dnn.h"
#include "lib/problem_check.h"

namespace cudaep::dnn {
namespace {

struct ConvCase {
  const char* name;
  int rank;
  int64_t batch, in_channels, out_channels, groups;
  Spatial in, kernel, pad_begin, pad_end, stride, dilation;
  bool bias = false;
  bool transposed = false;
  Spatial output_padding = {};
};

constexpr Spatial k0 = {0, 0, 0}, k1 = {1, 1, 1}, k2 = {2, 2, 2}, k3 = {3, 3, 3};

const ConvCase kCases[] = {
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

ConvProblem ProblemOf(const ConvCase& c, DataType type, Layout layout) {
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

constexpr ActivationParameters kParameters{-0.25f, 0.5f};

double Unit(double x) { return std::isnan(x) ? x : std::clamp(x, 0.0, 1.0); }

std::vector<double> Reference(const ConvProblem& p, const Epilogue& epilogue, const std::vector<double>& x,
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
    if (epilogue.residual()) y[i] += residual[i];
    if (epilogue.activation == Activation::kRelu) y[i] = std::max(y[i], 0.0);
    if (epilogue.activation == Activation::kSilu) y[i] /= 1 + std::exp(-y[i]);
    if (epilogue.activation == Activation::kClip) y[i] = std::clamp<double>(y[i], kParameters.a, kParameters.b);
    if (epilogue.activation == Activation::kLeakyRelu && y[i] < 0) y[i] *= kParameters.a;
    if (epilogue.activation == Activation::kHardSigmoid) y[i] = Unit(kParameters.a * y[i] + kParameters.b);
    if (epilogue.activation == Activation::kHardSwish) y[i] *= Unit(y[i] / 6 + 0.5);
  }
  return y;
}

// What a plan does of its problem's epilogue.
Epilogue DoneBy(const ConvPlan& plan, const ConvProblem& p) {
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

class ConvTableTest : public ConvTest, public ::testing::WithParamInterface<std::tuple<ConvCase, DataType, Layout>> {};

TEST_P(ConvTableTest, MatchesReference) {
  const auto& [c, type, layout] = GetParam();
  CheckOnce(ProblemOf(c, type, layout), 16 << 20);
}

std::string CaseName(const ::testing::TestParamInfo<std::tuple<ConvCase, DataType, Layout>>& info) {
  const auto& [c, type, layout] = info.param;
  return std::string(c.name) + "_" + std::string(DataTypeName(type)) +
         (layout == Layout::kChannelsLast ? "_channels_last" : "_channels_first");
}
INSTANTIATE_TEST_SUITE_P(Table, ConvTableTest,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values(DataType::kFloat, DataType::kFloat16, DataType::kBFloat16,
                                                              DataType::kDouble),
                                            ::testing::Values(Layout::kChannelsFirst, Layout::kChannelsLast)),
                         CaseName);

const ConvCase& CaseNamed(std::string_view name) {
  return *std::find_if(std::begin(kCases), std::end(kCases), [&](const ConvCase& c) { return c.name == name; });
}

TEST_F(ConvTest, SmallWorkspaceGivesTheSameResult) {
  for (const char* name : {"wide", "plain_3x3", "three_dimensions", "transposed"}) {
    SCOPED_TRACE(name);
    CheckOnce(ProblemOf(CaseNamed(name), DataType::kFloat, Layout::kChannelsFirst), 8192);
  }
}

ConvProblem Fused(Activation activation, Layout layout) {
  ConvProblem p = ProblemOf(CaseNamed("plain_3x3"), DataType::kFloat16, layout);
  p.in_channels = 16, p.out_channels = 32;
  p.epilogue = {.beta = 1.0f, .bias = true, .activation = activation, .parameters = {}};
  if (ParameterCount(activation) > 0) p.epilogue.parameters = kParameters;
  return p;
}

TEST_F(ConvTest, BiasResidualAndActivationAreFused) {
  for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
    for (Activation activation : {Activation::kRelu, Activation::kSilu, Activation::kClip, Activation::kLeakyRelu,
                                  Activation::kHardSigmoid, Activation::kHardSwish, Activation::kNone}) {
      SCOPED_TRACE(StrCat(ActivationName(activation), layout == Layout::kChannelsLast ? " last" : " first"));
      const ConvProblem p = Fused(activation, layout);
      CheckOnce(p, 16 << 20);
      auto handle = CreateHandle();
      CUDAEP_ASSERT_OK(handle.status());
      auto plan = MakePlan(**handle, p, 16 << 20);
      CUDAEP_ASSERT_OK(plan.status());
      if (layout == Layout::kChannelsLast) {
        EXPECT_TRUE((*plan)->remaining().empty());
      }
    }
  }
}

TEST_F(ConvTest, EachCandidateGivesTheResultAndComesBackByItsName) {
  const ConvProblem p = Fused(Activation::kRelu, Layout::kChannelsLast);
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  const auto choices = Candidates(**handle, p, 16 << 20, 6);
  CUDAEP_ASSERT_OK(choices.status());
  ASSERT_GE(choices.value().size(), 2u);
  for (const std::string& choice : choices.value()) {
    SCOPED_TRACE(choice);
    auto plan = MakePlan(**handle, p, 16 << 20, choice);
    CUDAEP_ASSERT_OK(plan.status());
    EXPECT_EQ((*plan)->choice(), choice);
    EXPECT_TRUE((*plan)->remaining().empty());
    CheckOnce(p, 16 << 20, choice);
  }
  for (const char* wrong : {"nothing", "f9e1", "f0x", "f0e"}) {
    EXPECT_EQ(MakePlan(**handle, p, 16 << 20, wrong).status().code(), StatusCode::kInvalidArgument) << wrong;
  }
}

// What engines of cuDNN 9.19 make of these is wrong, or breaks the device.
TEST_F(ConvTest, EachCandidateIsRightForPlanesOfOnePixelAndUnequalPads) {
  const ConvCase cases[] = {
      {"one_pixel", 2, 3, 8, 4, 1, {1, 3}, k1, k0, k0, k3, k1},
      {"one_pixel_of_one_channel", 2, 3, 1, 4, 1, {1, 3}, k2, k1, k0, k3, k1, true},
      {"one_pixel_of_groups", 2, 3, 4, 8, 2, {2, 4}, {2, 3}, {1, 0}, {0, 1}, k3, {1, 2}, true},
      {"transposed_unequal", 2, 2, 1, 4, 1, {8, 8}, k2, k1, k0, {2, 1}, k1, false, true},
  };
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  for (const ConvCase& c : cases) {
    for (const DataType type : {DataType::kFloat, DataType::kFloat16}) {
      const ConvProblem p = ProblemOf(c, type, Layout::kChannelsFirst);
      const auto choices = Candidates(**handle, p, 16 << 20, 64);
      CUDAEP_ASSERT_OK(choices.status());
      EXPECT_FALSE(choices.value().empty());
      for (const std::string& choice : choices.value()) {
        SCOPED_TRACE(StrCat(c.name, ' ', DataTypeName(type), ' ', choice));
        CheckOnce(p, 16 << 20, choice);
      }
    }
  }
  if (Simulated()) return;
  const auto pinned =
      MakePlan(**handle, ProblemOf(cases[0], DataType::kFloat16, Layout::kChannelsFirst), 16 << 20, "f2e7");
  EXPECT_EQ(pinned.status().code(), StatusCode::kNotSupported);
}

// A session's memory is the next one's: plans of other types find their tensors where those of others were.
TEST_F(ConvTest, PlansOfSeveralTypesShareAddresses) {
  const ConvCase c{"", 2, 1, 1, 3, 1, {10, 2}, k1, k0, k0, {1, 3}, k1};
  const DataType types[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat16};
  for (const DataType first : types) {
    for (const DataType second : types) {
      SCOPED_TRACE(StrCat(DataTypeName(first), " then ", DataTypeName(second)));
      auto handle = CreateHandle();
      CUDAEP_ASSERT_OK(handle.status());
      CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
      ConvPointers at = Upload(ProblemOf(c, DataType::kDouble, Layout::kChannelsFirst), 1 << 20).at;
      for (const DataType type : {first, second}) {
        const ConvProblem p = ProblemOf(c, type, Layout::kChannelsFirst);
        const Tensors t = Upload(p, 0);
        const ConvSizes sizes = SizesOf(p);
        const size_t elem = SizeOf(type);
        const auto copy = [&](const void* to, const void* from, int64_t elems) {
          Check(device::MemcpyAsync(const_cast<void*>(to), from, static_cast<size_t>(elems) * elem, stream()));
        };
        copy(at.x, t.at.x, sizes.x);
        copy(at.w, t.at.w, sizes.w);
        copy(at.y, t.at.y, sizes.y);
        auto plan = MakePlan(**handle, p, 1 << 20);
        CUDAEP_ASSERT_OK(plan.status());
        CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, at));
        ExpectNear(type, Download(type, at.y, sizes.y), Reference(p, DoneBy(**plan, p), t.x, t.w, t.bias, t.residual));
      }
    }
  }
}

TEST_F(ConvTest, ASavedPlanLoads) {
  const ConvProblem p = Fused(Activation::kRelu, Layout::kChannelsLast);
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  const auto choices = Candidates(**handle, p, 16 << 20, 64);
  CUDAEP_ASSERT_OK(choices.status());
  int saved_plans = 0;
  for (const std::string& choice : choices.value()) {
    SCOPED_TRACE(choice);
    auto plan = MakePlan(**handle, p, 16 << 20, choice);
    CUDAEP_ASSERT_OK(plan.status());
    const Result<std::string> saved = (*plan)->Save();
    if (saved.status().code() == StatusCode::kNotSupported) continue;
    CUDAEP_ASSERT_OK(saved.status());
    auto loaded = MakePlan(**handle, p, 16 << 20, saved.value());
    CUDAEP_ASSERT_OK(loaded.status());
    EXPECT_EQ((*loaded)->choice(), choice);
    if (saved_plans++ < 4) CheckOnce(p, 16 << 20, saved.value());
  }
  EXPECT_GT(saved_plans, 0);
}

// FACTS: heuristics never offer cuDNN's runtime engine for this pattern; a redundant node and a pin do.
TEST_F(ConvTest, ARuntimeEngineCanBePinned) {
  ConvProblem p = Fused(Activation::kRelu, Layout::kChannelsLast);
  if (Simulated()) {
    p.in[0] = p.out[0] = 1;
    for (size_t d = 0; d < 2; ++d) {
      p.kernel[d] = p.stride[d] = p.dilation[d] = 1;
      p.pad_begin[d] = p.pad_end[d] = 0;
      p.out[d] = p.in[d];
    }
  }
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  for (const char* choice : {kRuntimeEngine, "f2e4"}) {
    auto plan = MakePlan(**handle, p, 16 << 20, choice);
    if (plan.status().code() == StatusCode::kNotSupported) {
      std::printf("%s: %s\n", choice, std::string(plan.status().message()).c_str());
      continue;
    }
    CUDAEP_ASSERT_OK(plan.status());
    return CheckOnce(p, 16 << 20, choice);
  }
  FAIL() << "engine 4 takes the graph in neither configuration";
}

// What the windows of an infinite pixel, or of one that is no number, make of it, and nothing else: an image of few
// channels, whose packs are filled up with zeros.
TEST_F(ConvTest, PixelsThatAreNoNumbersAreSeen) {
  ConvProblem p = ProblemOf(CaseNamed("plain_3x3"), DataType::kFloat16, Layout::kChannelsLast);
  p.batch = 2, p.in_channels = 8, p.out_channels = 16;
  p.in = p.out = {16, 16};
  p.epilogue.bias = true;
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
  for (const Activation activation : {Activation::kNone, Activation::kHardSigmoid, Activation::kHardSwish}) {
    p.epilogue.activation = activation;
    p.epilogue.parameters = activation == Activation::kHardSigmoid ? kParameters : ActivationParameters{};
    // What the heuristics suggest first, of precompiled engines: to compile all of an activation's takes a minute.
    auto choices = Candidates(**handle, p, 64 << 20, activation == Activation::kNone ? 64 : 1);
    CUDAEP_ASSERT_OK(choices.status());
    for (const std::string& choice : *choices) {
      auto plan = MakePlan(**handle, p, 64 << 20, choice);
      CUDAEP_ASSERT_OK(plan.status());
      SCOPED_TRACE(StrCat((*plan)->choice(), ' ', ActivationName(activation)));
      Tensors t = Upload(p, (*plan)->workspace_bytes());
      for (size_t i = 0; i < t.x.size(); ++i) t.x[i] = i % 8 < 3 ? t.x[i] : 0.0;
      for (double& w : t.w) w = w == 0.0 ? 0.5 : w;
      t.x[size_t{(5 * 16 + 8) * 8 + 1}] = std::numeric_limits<double>::infinity();
      t.x[size_t{(256 + 9 * 16 + 3) * 8 + 2}] = std::numeric_limits<double>::quiet_NaN();
      t.at.x = DeviceTest::Upload(p.types.a, t.x);
      t.at.w = DeviceTest::Upload(p.types.a, t.w);
      CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, t.at));
      const std::vector<double> expected = Reference(p, DoneBy(**plan, p), t.x, t.w, t.bias);
      const std::vector<double> found = Download(p.types.a, t.at.y, SizesOf(p).y);
      int wrong = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        wrong += std::isnan(found[i]) != std::isnan(expected[i]) || std::isinf(found[i]) != std::isinf(expected[i]);
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

// Heuristics rank engines without tensor cores first now and then, which take several times as long.
TEST_F(ConvTest, TheFirstPlanIsNotFarFromTheBest) {
  if (Simulated()) GTEST_SKIP() << "one engine";
  for (const auto& [in, out, size] : {std::tuple<int64_t, int64_t, int64_t>{112, 672, 14}, {80, 480, 14}}) {
    ConvProblem p = ProblemOf(CaseNamed("pointwise"), DataType::kFloat16, Layout::kChannelsLast);
    p.batch = 32, p.in_channels = in, p.out_channels = out;
    p.in = p.out = {size, size};
    auto handle = CreateHandle();
    CUDAEP_ASSERT_OK(handle.status());
    CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
    auto candidates = Candidates(**handle, p, 64 << 20, 12);
    CUDAEP_ASSERT_OK(candidates.status());
    const auto time_us = [&](const std::string& choice) {
      auto plan = MakePlan(**handle, p, 64 << 20, choice);
      if (!plan.ok()) return 1e9;
      const Tensors t = Upload(p, (*plan)->workspace_bytes());
      double least = 1e9;
      for (int repeat = 0; repeat < 5; ++repeat) {
        Check(device::StreamSynchronize(stream()));
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 20; ++i) Check(Enqueue(**handle, **plan, t.at));
        Check(device::StreamSynchronize(stream()));
        least = std::min(least,
                         std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
      }
      return least / 20;
    };
    double best = 1e9;
    for (const std::string& choice : *candidates) {
      const double us = time_us(choice);
      best = std::min(best, us);
    }
    const double first = time_us("");
    EXPECT_LE(first, 3 * best);
  }
}

TEST_F(ConvTest, UnalignedTensorsAreRefused) {
  const ConvProblem p = ProblemOf(CaseNamed("plain_3x3"), DataType::kFloat, Layout::kChannelsFirst);
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
  auto plan = MakePlan(**handle, p, 16 << 20);
  CUDAEP_ASSERT_OK(plan.status());
  Tensors t = Upload(p, (*plan)->workspace_bytes());
  t.at.x = static_cast<const std::byte*>(t.at.x) + sizeof(float);
  EXPECT_EQ(Enqueue(**handle, **plan, t.at).code(), StatusCode::kInvalidArgument);
}

TEST_F(ConvTest, PrecisionAndDeterminismFilters) {
  ConvProblem p = ProblemOf(CaseNamed("plain_3x3"), DataType::kFloat, Layout::kChannelsFirst);
  p.allow_tf32 = false;
  p.deterministic = true;
  CheckOnce(p, 16 << 20);
}

TEST_F(ConvTest, ReplaysWithChangedInputs) {
  const ConvProblem p = ProblemOf(CaseNamed("bias"), DataType::kFloat, Layout::kChannelsFirst);
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
  auto plan = MakePlan(**handle, p, 16 << 20);
  CUDAEP_ASSERT_OK(plan.status());
  const Tensors t = Upload(p, (*plan)->workspace_bytes());
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, t.at));  // loads kernels before the capture
  CUDAEP_ASSERT_OK(device::StreamSynchronize(stream()));

  device::UniqueGraph graph;
  device::UniqueGraphExec exec;
  CUDAEP_ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, t.at));
  CUDAEP_ASSERT_OK(device::StreamEndCapture(stream(), graph.Receive()));
  CUDAEP_ASSERT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
  const auto changed = TestValues(SizesOf(p).x, 9);
  const std::vector<uint8_t> bytes = Encode(p.types.a, changed);
  CUDAEP_ASSERT_OK(device::MemcpyAsync(const_cast<void*>(t.at.x), bytes.data(), bytes.size(), stream()));
  CUDAEP_ASSERT_OK(device::GraphLaunch(exec.get(), stream()));
  ExpectNear(p.types.a, Download(p.types.a, t.at.y, SizesOf(p).y),
             Reference(p, DoneBy(**plan, p), changed, t.w, t.bias, t.residual));
}

TEST_F(ConvTest, WorkspaceLimitThatNothingMeetsIsNamed) {
  if (!Simulated()) GTEST_SKIP() << "cuDNN has engines without workspace";
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
  const ConvProblem p = ProblemOf(CaseNamed("plain_3x3"), DataType::kFloat, Layout::kChannelsFirst);
  const auto plan = MakePlan(**handle, p, 16);
  ASSERT_EQ(plan.status().code(), StatusCode::kNotSupported);
  EXPECT_NE(plan.status().message().find("above the limit of 16"), std::string_view::npos) << plan.status().ToString();
}

TEST_F(ConvTest, VersionNamesTheLibrary) {
  auto version = Version();
  CUDAEP_ASSERT_OK(version.status());
  EXPECT_NE(version->find(Simulated() ? "simulated" : "cuDNN 9."), std::string::npos) << *version;
}

}  // namespace
}  // namespace cudaep::dnn
