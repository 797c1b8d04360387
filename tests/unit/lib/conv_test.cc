// Convolution problems of both directions against double-precision loops.
#include "conv_fixture.h"
#include "core/strings.h"

namespace cudaep::dnn {
namespace {

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

TEST_F(ConvTest, SmallWorkspaceGivesTheSameResult) {
  for (const char* name : {"wide", "plain_3x3", "three_dimensions", "transposed"}) {
    SCOPED_TRACE(name);
    CheckOnce(ProblemOf(CaseNamed(name), DataType::kFloat, Layout::kChannelsFirst), 8192);
  }
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

TEST_F(ConvTest, VersionNamesTheLibrary) {
  auto version = Version();
  CUDAEP_ASSERT_OK(version.status());
  EXPECT_NE(version->find(Simulated() ? "simulated" : "cuDNN 9."), std::string::npos) << *version;
}

}  // namespace
}  // namespace cudaep::dnn
