// Every way to run a convolution or a product, forced; plans that are shared; handles that are taken in time.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "../lib/device_fixture.h"
#include "lib/problem_check.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/conv_run.h"
#include "runtime/plan_timing.h"

namespace cudaep::ops {
namespace {

Settings Exact() {
  Settings settings;
  settings.use_tf32 = false;
  return settings;
}

dnn::ConvProblem Conv(int64_t in, int64_t out, int64_t size, int64_t kernel, int64_t stride, int64_t groups = 1) {
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
std::vector<double> Convolve(const dnn::ConvProblem& p, const std::vector<double>& x, const std::vector<double>& w,
                             const std::vector<double>& bias, const std::vector<double>& residual) {
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

  void CheckProduct(const Settings& settings, const blas::GemmProblem& p, bool by_library) {
    StreamContext context(0, stream());
    auto product = MatrixProduct::Make(context, p, ProductOptions(settings));
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

TEST_F(LibraryPathsTest, EveryRouteOfAConvolutionGivesTheResult) {
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
TEST_F(LibraryPathsTest, PackedWeightsRunByColumnsToo) {
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

TEST_F(LibraryPathsTest, MeasuredPlansGiveTheResult) {
  Settings settings = Exact();
  settings.conv_search = ConvSearch::kExhaustive;
  CheckConv(settings, Conv(8, 16, 12, 3, 1), ConvRoute::kLibrary);
  settings.conv_search = ConvSearch::kDefault;
  CheckConv(settings, Conv(8, 16, 12, 3, 1), ConvRoute::kLibrary);
}

TEST_F(LibraryPathsTest, AForcedRouteThatIsImpossibleIsNamed) {
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
  settings.conv_path = ConvPath::kColumns;
  dnn::ConvProblem last = Conv(8, 16, 9, 3, 2);
  last.layout = dnn::Layout::kChannelsLast;
  EXPECT_EQ(PlanConvRun(ConvOptions(settings), last, context).status().code(), StatusCode::kNotSupported);
  settings.gemm_path = GemmPath::kLibrary;
  const blas::GemmProblem whole{
      .types = lib::MixedTypes::Of(DataType::kInt32), .m = 2, .n = 2, .k = 2, .lda = 2, .ldb = 2, .ldc = 2};
  auto product = MatrixProduct::Make(context, whole, ProductOptions(settings));
  EXPECT_EQ(product.status().code(), StatusCode::kNotSupported);
  EXPECT_NE(product.status().message().find("gemm_path=library"), std::string_view::npos);
}

TEST_F(LibraryPathsTest, AConvolutionTakesTensorsOfAnyAlignment) {
  for (DataType type : {DataType::kFloat, DataType::kFloat16}) {
    dnn::ConvProblem p = Conv(8, 16, 9, 3, 2);
    p.types = lib::MixedTypes::Of(type);
    const bool turns = type == DataType::kFloat16;
    CheckConv(Exact(), p, turns ? ConvRoute::kChannelsLast : ConvRoute::kLibrary, 1);
    p.epilogue = {.bias = true};
    CheckConv(Exact(), p, turns ? ConvRoute::kChannelsLast : ConvRoute::kLibrary, 5);
    p.epilogue = {.beta = 1.0f, .bias = true, .activation = Activation::kRelu};
    CheckConv(Exact(), p, ConvRoute::kLibrary, 3);
  }
}

// The copies lie in the workspace, also where the plan asks for none; a shrink of the memory leaves them alone.
TEST_F(LibraryPathsTest, AlignedCopiesAreNotTakenAwayWhileTheyAreQueued) {
  StreamContext context(0, stream());
  dnn::ConvProblem p = Conv(4, 4, 5, 3, 1);
  Settings settings = Exact();
  auto made = PlanConvRun(ConvOptions(settings), p, context);
  CUDAEP_ASSERT_OK(made.status());
  const auto& plan = PlanAs<ConvRunPlan>(**made);
  ASSERT_EQ(plan.route, ConvRoute::kLibrary);
  const dnn::ConvSizes sizes = dnn::SizesOf(p);
  const auto unaligned = [&](int64_t count) {
    return static_cast<float*>(Upload(DataType::kFloat, TestValues(count + 1, 1))) + 1;
  };
  const dnn::ConvPointers at{
      .x = unaligned(sizes.x), .w = unaligned(sizes.w), .bias = unaligned(p.out_channels), .y = unaligned(sizes.y)};
  std::atomic<bool> ends{false};
  std::thread shrinker([&] {
    while (!ends) context.memory()->Shrink().IgnoreError();
  });
  Status status;
  for (int i = 0; i < 300 && status.ok(); ++i) status = EnqueueConvRun(plan, context, at);
  ends = true;
  shrinker.join();
  CUDAEP_ASSERT_OK(status);
  CUDAEP_ASSERT_OK(device::StreamSynchronize(stream()));
}

TEST_F(LibraryPathsTest, EveryEpilogueOfAProductGivesTheResultByEitherPath) {
  for (DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16, DataType::kDouble}) {
    for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGeluErf, Activation::kSigmoid,
                                  Activation::kSilu, Activation::kTanh}) {
      const blas::GemmProblem p = Product(type, 19, activation);
      SCOPED_TRACE(blas::ProblemText(p));
      Settings settings = Exact();
      CheckProduct(settings, p, true);
      settings.gemm_path = GemmPath::kOwnKernel;
      CheckProduct(settings, p, false);
    }
  }
}

// Where the tensors lie must not choose the algorithm: the same plan, the same bits, and gaps left alone.
TEST_F(LibraryPathsTest, ADeterministicProductHasTheSameBitsAtAnyAlignment) {
  Settings settings;
  settings.deterministic = true;
  for (DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kDouble}) {
    for (bool full : {false, true}) {
      blas::GemmProblem p{.types = lib::MixedTypes::Of(type), .m = 5, .n = 24, .k = 300, .lda = 301, .ldb = 24};
      p.ldc = full ? 24 : 27;
      p.batch[1] = {.size = 2, .stride_a = 5 * 301, .stride_b = 0, .stride_c = 5 * p.ldc + 3};
      p.epilogue.bias = full;
      p.epilogue.beta = full ? 1.0f : 0.0f;
      if (full) p.batch[1].stride_c = 5 * p.ldc;
      SCOPED_TRACE(blas::ProblemText(p));
      StreamContext context(0, stream());
      auto product = MatrixProduct::Make(context, p, ProductOptions(settings));
      CUDAEP_ASSERT_OK(product.status());
      ASSERT_NE(product->library(), nullptr);
      const blas::GemmSizes sizes = blas::SizesOf(p);
      const size_t size = SizeOf(type);
      // Values whose sums round, and so depend on their order.
      const auto values = [](int64_t count, double step) {
        std::vector<double> made(static_cast<size_t>(count));
        for (size_t i = 0; i < made.size(); ++i) made[i] = std::sin(step * static_cast<double>(i + 1));
        return made;
      };
      const auto run = [&](size_t shift, bool in_place) {
        const auto upload = [&](std::vector<double> given) {
          given.insert(given.begin(), shift, 0.0);
          return static_cast<std::byte*>(Upload(type, given)) + shift * size;
        };
        blas::GemmPointers at{.a = upload(values(sizes.a, 0.37)),
                              .b = upload(values(sizes.b, 0.73)),
                              .c = upload(values(sizes.c, 0.11)),
                              .bias = upload(values(p.n, 0.53)),
                              .residual = upload(values(sizes.c, 0.11))};
        if (in_place) at.residual = at.c;
        at.workspace = context.workspace().Reserve(product->workspace_bytes()).value();
        EXPECT_TRUE(product->Enqueue(context, at).ok());
        return Download(type, at.c, sizes.c);
      };
      const memory::AllocatorStats before = context.memory()->tensors()->Stats();
      const auto wanted = run(0, false);
      EXPECT_EQ(context.memory()->tensors()->Stats().allocations, before.allocations);
      for (size_t shift : {size_t{1}, size_t{16} / size, size_t{3}}) {
        EXPECT_EQ(run(shift, false), wanted) << shift;
        EXPECT_EQ(run(shift, true), wanted) << shift;
      }
      const memory::AllocatorStats after = context.memory()->tensors()->Stats();
      EXPECT_GT(after.allocations, before.allocations);  // by the calls whose tensors were not aligned, and freed
      EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
    }
  }
}

// Room for copies is the affair of the calls that make them.
TEST_F(LibraryPathsTest, ADeterministicPlanTakesNoMoreMemoryThanTheLibrary) {
  Settings settings;
  settings.deterministic = true;
  StreamContext context(0, stream());
  const blas::GemmProblem p = Product(DataType::kFloat, 8);
  auto product = MatrixProduct::Make(context, p, ProductOptions(settings));
  CUDAEP_ASSERT_OK(product.status());
  ASSERT_GT(product->library()->As<blas::GemmPlan>().alignment(), 1u);
  EXPECT_EQ(product->workspace_bytes(), product->library()->plan().workspace_bytes());
}

// A captured call reuses what one before it had.
TEST_F(LibraryPathsTest, CopiesOfUnalignedTensorsAreCapturedAfterOneCall) {
  Settings settings;
  settings.deterministic = true;
  StreamContext context(0, stream());
  context.memory()->ExpectCaptures(stream());
  const blas::GemmProblem p = Product(DataType::kFloat, 8);
  auto product = MatrixProduct::Make(context, p, ProductOptions(settings));
  CUDAEP_ASSERT_OK(product.status());
  const blas::GemmPointers at{.a = static_cast<float*>(Upload(DataType::kFloat, TestValues(p.m * p.k + 1, 1))) + 1,
                              .b = Upload(DataType::kFloat, TestValues(p.k * p.n, 2)),
                              .c = Allocate(static_cast<size_t>(p.m * p.n) * sizeof(float)),
                              .bias = Upload(DataType::kFloat, TestValues(p.n, 3)),
                              .residual = Upload(DataType::kFloat, TestValues(p.m * p.n, 4)),
                              .workspace = context.workspace().Reserve(product->workspace_bytes()).value()};
  const auto capture = [&](device::UniqueGraph& graph) -> Status {
    CUDAEP_RETURN_IF_ERROR(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
    Status queued = product->Enqueue(context, at);
    const Status ended = device::StreamEndCapture(stream(), graph.Receive());
    return queued.ok() ? ended : queued;
  };
  device::UniqueGraph refused, graph;
  EXPECT_EQ(capture(refused).code(), StatusCode::kFailedPrecondition);
  CUDAEP_ASSERT_OK(product->Enqueue(context, at));
  CUDAEP_ASSERT_OK(capture(graph));
  context.memory()->ReleaseStream(stream());
}

TEST_F(LibraryPathsTest, AConstantOperandIsNeverCopied) {
  Settings settings;
  settings.deterministic = true;
  StreamContext context(0, stream());
  const blas::GemmProblem p = Product(DataType::kFloat, 8);
  ProductOptions options(settings);
  options.constant_b = true;
  auto product = MatrixProduct::Make(context, p, options);
  CUDAEP_ASSERT_OK(product.status());
  // One that lies where the library's plan does not allow it, and always will, is the own kernel's.
  const auto a = TestValues(p.m * p.k, 1), b = TestValues(p.k * p.n + 1, 2), bias = TestValues(p.n, 3);
  const blas::GemmPointers at{.a = Upload(DataType::kFloat, a),
                              .b = static_cast<float*>(Upload(DataType::kFloat, b)) + 1,
                              .c = Allocate(static_cast<size_t>(p.m * p.n) * sizeof(float)),
                              .bias = Upload(DataType::kFloat, bias),
                              .residual = Upload(DataType::kFloat, TestValues(p.m * p.n, 4)),
                              .workspace = context.workspace().Reserve(product->workspace_bytes()).value()};
  const int64_t allocations = context.memory()->tensors()->Stats().allocations;
  CUDAEP_ASSERT_OK(product->Enqueue(context, at));
  EXPECT_EQ(context.memory()->tensors()->Stats().allocations, allocations);
  double sum = bias[0] + TestValues(1, 4)[0];
  for (int64_t k = 0; k < p.k; ++k) sum += 0.5 * a[static_cast<size_t>(k)] * b[static_cast<size_t>(k * p.n + 1)];
  EXPECT_NEAR(Download(DataType::kFloat, at.c, 1)[0], sum, 1e-4);
}

TEST_F(LibraryPathsTest, RowsAreRoundedUpByAnEighthAtMost) {
  for (int64_t m = 1; m <= 5000; ++m) {
    const int64_t bucket = RowBucket(m);
    ASSERT_GE(bucket, m);
    ASSERT_LE(8 * (bucket - m), m) << m;
    ASSERT_EQ(RowBucket(bucket), bucket);
  }
}

TEST_F(LibraryPathsTest, ProductsOfManyLengthsShareAFewPlans) {
  StreamContext context(0, stream());
  const uint64_t before = PlanStore::Process().statistics().built;
  for (int64_t m = 1; m <= 512; ++m) {
    blas::GemmProblem p = Product(DataType::kFloat16, m);
    p.epilogue.alpha = 0.75f;  // of this test alone
    CUDAEP_ASSERT_OK(MatrixProduct::Make(context, p, ProductOptions()).status());
  }
  EXPECT_LE(PlanStore::Process().statistics().built - before, 64u);
  const Settings settings = Exact();
  for (int64_t m : {1, 17, 113, 129, 500}) CheckProduct(settings, Product(DataType::kFloat16, m), true);
}

// ResNet-50 has 53 convolutions of 23 problems where nothing is fused.
TEST_F(LibraryPathsTest, ANetworksConvolutionsBuildOnePlanForEachProblem) {
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

TEST_F(LibraryPathsTest, StreamsTakeTheHandlesTheyNeedAndNoOthers) {
  const uint64_t dnn_before = DnnHandles().created();
  std::vector<std::unique_ptr<StreamContext>> contexts;
  for (int i = 0; i < 64; ++i) {
    contexts.push_back(std::make_unique<StreamContext>(0, stream()));
    CUDAEP_ASSERT_OK(contexts.back()->TakeHandles({.blas = true}));
  }
  EXPECT_EQ(DnnHandles().created(), dnn_before);
  const uint64_t blas_before = BlasHandles().created();
  auto product = MatrixProduct::Make(*contexts[0], Product(DataType::kFloat, 8), ProductOptions());
  CUDAEP_ASSERT_OK(product.status());
  EXPECT_EQ(BlasHandles().created(), blas_before);  // what was taken is used
}

TEST_F(LibraryPathsTest, AlternativesAreTimedAndFailuresPassedOver) {
  StreamContext context(0, stream());
  TimingTensors tensors(context);
  void* const memory = tensors.Random(DataType::kFloat16, 100'000).value();
  const auto values = Download(DataType::kFloat16, memory, 100'000);
  EXPECT_NE(values[1], values[2]);
  for (double value : values) ASSERT_LE(std::abs(value), 1.0);
  int calls[2] = {};
  const auto times = TimeAlternatives(context, 2, [&](size_t i) -> Status {
    ++calls[i];
    if (i == 1) return NotSupported("never runs");
    return device::MemsetAsync(memory, 0, 200'000, stream());
  });
  CUDAEP_ASSERT_OK(times.status());
  EXPECT_LT(times.value()[0], times.value()[1]);
  EXPECT_EQ(calls[0], 6);
  EXPECT_EQ(calls[1], 1);
}

}  // namespace
}  // namespace cudaep::ops
