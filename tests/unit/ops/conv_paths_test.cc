// Every way to run a convolution, forced; plans that are shared.
#include <set>

#include "../runtime/limited_memory.h"
#include "core/strings.h"
#include "library_paths.h"

namespace cudaep::ops {
namespace {

using ConvPathsTest = LibraryPathsTest;

TEST_F(ConvPathsTest, EveryRouteOfAConvolutionGivesTheResult) {
  for (DataType type : {DataType::kFloat, DataType::kFloat16}) {
    dnn::ConvProblem p = Conv(8, 16, 9, 3, 2);
    p.types = lib::MixedTypes::Of(type);
    for (Activation activation : {Activation::kNone, Activation::kRelu}) {
      for (float beta : {0.0f, 1.0f}) {
        p.epilogue = {.beta = beta, .bias = true, .activation = activation};
        SCOPED_TRACE(dnn::ProblemText(p));
        Settings settings = Exact();
        const bool turns = type == DataType::kFloat16 && beta == 0;
        CheckConv(settings, p, turns ? ConvRoute::kChannelsLast : ConvRoute::kLibrary);
        settings.conv_path = ConvPath::kChannelsLast;
        if (beta == 0) CheckConv(settings, p, ConvRoute::kChannelsLast);
        settings.conv_path = ConvPath::kLibrary;
        CheckConv(settings, p, ConvRoute::kLibrary);
        settings.conv_path = ConvPath::kColumns;
        CheckConv(settings, p, ConvRoute::kColumns);
        settings = Exact();
        settings.enable_cudnn = false;
        CheckConv(settings, p, ConvRoute::kColumns);
      }
    }
    dnn::ConvProblem each = Conv(8, 8, 9, 3, 1, 8);
    each.types = lib::MixedTypes::Of(type);
    for (const auto& [path, route] :
         {std::pair{ConvPath::kAuto, ConvRoute::kDepthwise}, std::pair{ConvPath::kDepthwise, ConvRoute::kDepthwise},
          std::pair{ConvPath::kLibrary, ConvRoute::kLibrary}, std::pair{ConvPath::kColumns, ConvRoute::kColumns}}) {
      Settings settings = Exact();
      settings.conv_path = path;
      CheckConv(settings, each, route);
    }
  }
}

// Where channels-last plans have no room, packed weights are turned back.
TEST_F(ConvPathsTest, PackedWeightsRunByColumnsToo) {
  dnn::ConvProblem p = Conv(8, 16, 9, 3, 2);
  p.types = lib::MixedTypes::Of(DataType::kFloat16);
  p.epilogue = {.bias = true};
  Settings settings = Exact();
  CheckConv(settings, p, ConvRoute::kChannelsLast, 0, true);
  CheckConv(settings, p, ConvRoute::kChannelsLast, 1, true);
  settings.conv_use_max_workspace = false;
  dnn::ConvProblem large = p;
  large.batch = 20000;  // copies of more than 32 MB
  StreamContext context(0, stream());
  auto plan = PlanConvRun(ConvOptions(settings), large, context, true);
  CUDAEP_ASSERT_OK(plan.status());
  EXPECT_EQ(PlanAs<ConvRunPlan>(**plan).route, ConvRoute::kColumns);
  settings.conv_path = ConvPath::kColumns;
  CheckConv(settings, p, ConvRoute::kColumns, 0, true);
}

TEST_F(ConvPathsTest, MeasuredPlansGiveTheResult) {
  Settings settings = Exact();
  settings.conv_search = ConvSearch::kExhaustive;
  CheckConv(settings, Conv(8, 16, 12, 3, 1), ConvRoute::kLibrary);
  settings.conv_search = ConvSearch::kDefault;
  CheckConv(settings, Conv(8, 16, 12, 3, 1), ConvRoute::kLibrary);
}

// The activation is the finisher's until an engine with it has been compiled, and then nobody else's, for plans that
// were made before too. In a deterministic session it stays the finisher's, and where no engine does all: cuDNN 9.19
// has them for some of these.
TEST_F(ConvPathsTest, AnActivationThatIsCompiledIsFusedLater) {
  int fused = 0;
  for (DataType type : {DataType::kFloat, DataType::kFloat16}) {
    for (float beta : {0.0f, 1.0f}) {
      dnn::ConvProblem p = Conv(8, 16, 9, 3, type == DataType::kFloat ? 1 : 2);
      p.types = lib::MixedTypes::Of(type);
      p.epilogue = {.beta = beta, .bias = true, .activation = Activation::kSilu};
      SCOPED_TRACE(dnn::ProblemText(p));
      for (const bool deterministic : {true, false}) {
        Settings settings = Exact();
        settings.deterministic = deterministic;
        StreamContext context(0, stream());
        auto made = PlanConvRun(ConvOptions(settings), p, context);
        CUDAEP_ASSERT_OK(made.status());
        const auto& plan = PlanAs<ConvRunPlan>(**made);
        ASSERT_NE(plan.library, nullptr);
        EXPECT_TRUE(plan.finish.has_value() || plan.library->is_replaced());  // which a busy machine may see
        CheckConv(plan, context, p);
        PlanStore::Process().WaitForBackground();
        const bool whole = plan.library->plan().remaining().empty();
        EXPECT_EQ(plan.library->is_replaced(), whole) << plan.library->plan().choice();
        EXPECT_FALSE(deterministic && whole);
        if (whole) ++fused;
        CheckConv(plan, context, p);
      }
    }
  }
  EXPECT_GE(fused, std::string_view(device::BackendName()) == "simulated" ? 4 : 1);
}

// A row of pixels, which the simulated runtime engine takes.
dnn::ConvProblem Row(int64_t pixels) {
  dnn::ConvProblem p = Conv(8, 16, pixels, 1, 1);
  p.in[0] = p.out[0] = 1;
  p.types = lib::MixedTypes::Of(DataType::kFloat16);
  return p;
}

// Of few multiplications: behind a measured plan as behind the library's first; DEFAULT keeps what it asks for, and so
// do sessions that compile nothing, beside others that do.
TEST_F(ConvPathsTest, AShortConvolutionIsCompiledBehindWhatServesFirst) {
  int64_t size = 20;  // another problem each
  for (const ConvSearch search : {ConvSearch::kHeuristic, ConvSearch::kExhaustive, ConvSearch::kDefault}) {
    const dnn::ConvProblem p = Row(++size);
    for (const bool compiles : {true, false}) {
      Settings settings = Exact();
      settings.conv_path = ConvPath::kChannelsLast;
      settings.conv_search = search;
      settings.compiled_engines = compiles;
      SCOPED_TRACE(StrCat(dnn::ProblemText(p), " search ", static_cast<int>(search)));
      StreamContext context(0, stream());
      auto made = PlanConvRun(ConvOptions(settings), p, context);
      CUDAEP_ASSERT_OK(made.status());
      const auto& plan = PlanAs<ConvRunPlan>(**made);
      ASSERT_EQ(plan.route, ConvRoute::kChannelsLast);
      PlanStore::Process().WaitForBackground();
      EXPECT_EQ(plan.library->is_replaced(), compiles && search != ConvSearch::kDefault);
      EXPECT_EQ(plan.library->plan().choice() == dnn::kRuntimeEngine, plan.library->is_replaced());
      CheckConv(plan, context, p);
    }
  }
}

TEST_F(ConvPathsTest, NothingIsCompiledWhereThatCouldTakeTheRoomOfARun) {
  Settings settings;
  settings.conv_path = ConvPath::kChannelsLast;
  int64_t size = 30;
  for (const size_t megabytes : {size_t{32}, size_t{256}}) {
    StreamContext context(testing::LimitedMemory(megabytes << 20), stream());
    auto made = PlanConvRun(ConvOptions(settings), Row(++size), context);
    CUDAEP_ASSERT_OK(made.status());
    PlanStore::Process().WaitForBackground();
    EXPECT_EQ(PlanAs<ConvRunPlan>(**made).library->is_replaced(), megabytes > 64);
  }
}

TEST_F(ConvPathsTest, AForcedRouteThatIsImpossibleIsNamed) {
  StreamContext context(0, stream());
  Settings settings;
  settings.conv_path = ConvPath::kDepthwise;
  auto plan = PlanConvRun(ConvOptions(settings), Conv(8, 16, 9, 3, 2), context);
  EXPECT_EQ(plan.status().code(), StatusCode::kNotSupported);
  EXPECT_NE(plan.status().message().find("conv_path=depthwise"), std::string_view::npos) << plan.status().ToString();
  settings.conv_path = ConvPath::kChannelsLast;
  plan = PlanConvRun(ConvOptions(settings), Conv(8, 16, 9, 3, 2, 2), context);
  EXPECT_EQ(plan.status().code(), StatusCode::kNotSupported);
  EXPECT_NE(plan.status().message().find("conv_path=channels_last"), std::string_view::npos);
  settings.gemm_path = GemmPath::kLibrary;
  const blas::GemmProblem whole{
      .types = lib::MixedTypes::Of(DataType::kInt32), .m = 2, .n = 2, .k = 2, .lda = 2, .ldb = 2, .ldc = 2};
  auto product = MatrixProduct::Make(context, whole, ProductOptions(settings));
  EXPECT_EQ(product.status().code(), StatusCode::kNotSupported);
  EXPECT_NE(product.status().message().find("gemm_path=library"), std::string_view::npos);
}

// ResNet-50 has 53 convolutions of 23 problems where nothing is fused.
TEST_F(ConvPathsTest, ANetworksConvolutionsBuildOnePlanForEachProblem) {
  std::vector<dnn::ConvProblem> convolutions{Conv(3, 64, 224, 7, 2)};
  int64_t in = 64, size = 56;
  for (const auto& [width, blocks] : {std::pair{64, 3}, std::pair{128, 4}, std::pair{256, 6}, std::pair{512, 3}}) {
    for (int block = 0; block < blocks; ++block) {
      const int64_t stride = block == 0 && width != 64 ? 2 : 1;
      convolutions.push_back(Conv(in, width, size, 1, 1));
      convolutions.push_back(Conv(width, width, size, 3, stride));
      convolutions.push_back(Conv(width, 4 * width, size / stride, 1, 1));
      if (block == 0) convolutions.push_back(Conv(in, 4 * width, size, 1, stride));
      in = 4 * width;
      size /= stride;
    }
  }
  ASSERT_EQ(convolutions.size(), 53u);
  std::set<std::string> problems;
  for (dnn::ConvProblem& p : convolutions) {
    p.batch = 3;  // of this test alone
    problems.insert(dnn::ProblemText(p));
  }
  EXPECT_EQ(problems.size(), 23u);
  for (size_t expected : {problems.size(), size_t{0}}) {  // two sessions
    const uint64_t before = PlanStore::Process().statistics().built;
    StreamContext context(0, stream());
    for (const dnn::ConvProblem& p : convolutions) {
      CUDAEP_ASSERT_OK(PlanConvRun(ConvOptions(Settings()), p, context).status());
    }
    EXPECT_EQ(PlanStore::Process().statistics().built - before, expected);
  }
}

}  // namespace
}  // namespace cudaep::ops
