// Convolutions and products with tensors that the library does not take where they lie.
#include <atomic>
#include <thread>

#include "library_paths.h"

namespace cudaep::ops {
namespace {

using AlignmentPathsTest = LibraryPathsTest;

TEST_F(AlignmentPathsTest, AConvolutionTakesTensorsOfAnyAlignment) {
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

// Neither the copies, which lie in memory of the call's own, nor the plan's workspace beside them.
TEST_F(AlignmentPathsTest, AlignedCopiesAreNotTakenAwayWhileTheyAreQueued) {
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
  dnn::ConvPointers at{
      .x = unaligned(sizes.x), .w = unaligned(sizes.w), .bias = unaligned(p.out_channels), .y = unaligned(sizes.y)};
  std::atomic<bool> ends{false};
  std::thread shrinker([&] {
    while (!ends) context.memory()->Shrink().IgnoreError();
  });
  Status status;
  for (int i = 0; i < 300 && status.ok(); ++i) {
    const Workspace::Use use(context.workspace(), plan.workspace_bytes);
    at.workspace = context.workspace().Reserve(plan.workspace_bytes).value();
    status = EnqueueConvRun(plan, context, at);
  }
  ends = true;
  shrinker.join();
  CUDAEP_ASSERT_OK(status);
  CUDAEP_ASSERT_OK(device::StreamSynchronize(stream()));
}

// Where the tensors lie must not choose the algorithm: the same plan, the same bits, and gaps left alone.
TEST_F(AlignmentPathsTest, ADeterministicProductHasTheSameBitsAtAnyAlignment) {
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
TEST_F(AlignmentPathsTest, ADeterministicPlanTakesNoMoreMemoryThanTheLibrary) {
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
TEST_F(AlignmentPathsTest, CopiesOfUnalignedTensorsAreCapturedAfterOneCall) {
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
  const Status first = capture(refused);  // on a GPU there may be memory of tests before this one
  if (!first.ok() || std::string_view(device::BackendName()) == "simulated") {
    EXPECT_EQ(first.code(), StatusCode::kFailedPrecondition);
  }
  CUDAEP_ASSERT_OK(product->Enqueue(context, at));
  CUDAEP_ASSERT_OK(capture(graph));
  context.memory()->ReleaseStream(stream());
}

TEST_F(AlignmentPathsTest, AConstantOperandIsNeverCopied) {
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

}  // namespace
}  // namespace cudaep::ops
