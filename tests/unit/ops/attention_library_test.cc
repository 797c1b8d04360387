// When attention is the vendor library's, and that a change to it changes no result.
#include <future>

#include "../runtime/no_threads.h"
#include "attention_library_fixture.h"
#include "memory/memory_registry.h"
#include "ops/attention/attention_step.h"

namespace cudaep::ops {
namespace {

TEST_F(AttentionLibraryTest, TakesCausalAttentionOfGroups) {
  const AttentionProblem p = Causal();
  SKIP_WHERE_REFUSED(IsTaken(p));
  ExpectLastRow(p);
}

TEST_F(AttentionLibraryTest, TakesAttentionToAnotherSequence) {
  AttentionProblem p = Causal(kRows, kHeads);
  p.right = AttentionProblem::kUnbounded;
  p.keys = kRows + 9;
  p.past = 5;  // of no meaning without an order
  p.k = p.v = HeadsFirst(kHeads, p.keys, kSize);
  SKIP_WHERE_REFUSED(IsTaken(p));
  ExpectLastRow(p);
}

// From the first query and the first key on, whatever their numbers.
TEST_F(AttentionLibraryTest, TakesCausalAttentionToAnotherSequence) {
  AttentionProblem p = Causal(kRows, kHeads);
  p.queries = kRows + 7;
  p.q = p.y = RowsFirst(kHeads, p.queries, kSize);
  SKIP_WHERE_REFUSED(IsTaken(p));
  ExpectLastRow(p);
}

TEST_F(AttentionLibraryTest, LeavesTheRestToTheOwnKernel) {
  const auto refuses = [&](auto&& change) {
    AttentionProblem p = Causal();
    AttentionPointers at = at_;
    change(p, at);
    return !IsTaken(p, at);
  };
  using P = AttentionProblem&;
  using A = AttentionPointers&;
  const int64_t other = 0;
  EXPECT_TRUE(refuses([](P p, A) { p.queries = p.keys = kRows / 4; }));
  EXPECT_TRUE(refuses([&](P p, A at) {
    p.keys = kRows + 1;
    at.key_end = &other;
  }));
  EXPECT_TRUE(refuses([](P p, A) { p.past = 1; }));
  EXPECT_TRUE(refuses([](P p, A) { p.from_end = true; }));
  EXPECT_TRUE(refuses([](P p, A) { p.left = 100; }));
  EXPECT_TRUE(refuses([](P p, A) { p.right = 1; }));
  EXPECT_TRUE(refuses([](P p, A) { p.softcap = 1; }));
  EXPECT_TRUE(refuses([](P p, A at) {
    p.bias = true;
    p.bias_strides = {.keys = kRows};  // one for all keys
    at.bias = at.q;
  }));
  EXPECT_TRUE(refuses([](P p, A at) {
    p.bias = true;
    p.bias_strides = {.key = 1, .keys = kRows - 8};
    at.bias = at.q;
  }));
  EXPECT_TRUE(refuses([](P p, A at) {
    p.bias = true;
    p.bias_strides = {.key = 1, .keys = kRows};
    at.bias = static_cast<const std::byte*>(at.q) + 2;
  }));
  EXPECT_TRUE(refuses([](P p, A) { p.mask = kernels::AttentionMask::kBool; }));
  EXPECT_TRUE(refuses([](P p, A) { p.masked = -10000; }));
  EXPECT_TRUE(refuses([](P p, A) { p.scores = kernels::AttentionScores::kMasked; }));
  EXPECT_TRUE(refuses([](P p, A) { p.q.row += 4; }));
  EXPECT_TRUE(refuses([](P, A at) { at.k = static_cast<const std::byte*>(at.k) + 2; }));
  EXPECT_TRUE(refuses([&](P, A at) { at.sink = &other; }));
  EXPECT_TRUE(refuses([](P, A at) { at.zero_sink = true; }));
  EXPECT_TRUE(refuses([](P, A at) { at.key_begin = reinterpret_cast<const int32_t*>(at.q); }));
  EXPECT_TRUE(refuses([&](P p, A at) {
    p.right = AttentionProblem::kUnbounded;
    at.key_end = &other;
  }));

  device::DeviceInfo info = stream_->device_info();
  EXPECT_TRUE(AttentionLibrary::MaySuit(Causal(), info));
  const auto may = [&](auto&& change) {
    AttentionProblem p = Causal();
    change(p);
    return AttentionLibrary::MaySuit(p, info);
  };
  EXPECT_FALSE(may([](P p) { p.type = DataType::kFloat; }));
  EXPECT_FALSE(may([](P p) { p.compute = DataType::kDouble; }));
  EXPECT_FALSE(may([](P p) { p.queries /= 4; }));
  EXPECT_FALSE(may([](P p) {
    p.queries = AttentionLibrary::kLeastQueries - 1;
    p.keys *= 1024;
  }));
  EXPECT_FALSE(may([](P p) { p.softcap = 1; }));
  EXPECT_FALSE(may([](P p) { p.left = 100; }));
  EXPECT_FALSE(may([](P p) { p.scores = kernels::AttentionScores::kCapped; }));
  EXPECT_FALSE(may([](P p) { p.head_size = p.v_head_size = 68; }));
  EXPECT_FALSE(may([](P p) { p.head_size = p.v_head_size = 264; }));
  EXPECT_FALSE(may([](P p) { p.v_head_size = 128; }));
  // What the kernel of warpgroups takes, which takes no range of keys, as causal calls may have.
  info.simulated = false, info.major = 9, info.multiprocessors = 132;
  const auto may_short = [&](int64_t rows, int64_t batches, int64_t right) {
    return may([&](P p) {
      p = Causal(rows);
      p.head_size = p.v_head_size = 64;
      p.batch *= batches;
      p.right = right;
    });
  };
  EXPECT_FALSE(may_short(128, 1 << 12, AttentionProblem::kUnbounded));
  EXPECT_FALSE(may_short(192, 4, AttentionProblem::kUnbounded));
  EXPECT_TRUE(may_short(192, 1 << 12, AttentionProblem::kUnbounded));
  EXPECT_TRUE(may_short(192, 4, 0));
  info.major = 8;
  EXPECT_TRUE(may_short(192, 4, AttentionProblem::kUnbounded));
  EXPECT_FALSE(may_short(128, 4, AttentionProblem::kUnbounded));
  EXPECT_TRUE(may_short(128, 1 << 12, AttentionProblem::kUnbounded));
  info.major = 7;
  EXPECT_FALSE(AttentionLibrary::MaySuit(Causal(), info));
}

TEST_F(AttentionLibraryTest, OnlyLengthsThatComeAgainGetAPlan) {
  AttentionLibrary library;
  const AttentionProblem one = Causal(), other = Causal(kRows + 1);
  const auto taken = [&](const AttentionProblem& p) {
    PlanStore::Process().WaitForBackground();
    return library.Enqueue(Context(), p, at_).value();
  };
  for (int i = 0; i < 2 * AttentionLibrary::kCalls; ++i) EXPECT_FALSE(taken(i % 2 == 0 ? one : other));
  for (int i = 0; i + 1 < AttentionLibrary::kCalls; ++i) EXPECT_FALSE(taken(one));
  EXPECT_FALSE(taken(other));
  for (int i = 0; i < AttentionLibrary::kCalls; ++i) EXPECT_FALSE(taken(one));
  SKIP_WHERE_REFUSED(taken(one));
  EXPECT_FALSE(taken(other));  // the plan is for exact lengths
  EXPECT_TRUE(taken(one));
}

// What is captured comes again: a plan is begun at once, and captured where it is there.
TEST_F(AttentionLibraryTest, ACaptureBeginsAPlan) {
  AttentionLibrary library;
  const AttentionProblem p = Causal(kRows + 2);
  const auto captured = [&] {
    const auto mode = device::CaptureMode::kThreadLocal;
    EXPECT_TRUE(device::StreamBeginCapture(stream(), mode).ok());
    const bool taken = library.Enqueue(Context(), p, at_).value();
    device::UniqueGraph graph;
    EXPECT_TRUE(device::StreamEndCapture(stream(), graph.Receive()).ok());
    return taken;
  };
  EXPECT_FALSE(captured());
  PlanStore::Process().WaitForBackground();
  SKIP_WHERE_REFUSED(library.Enqueue(Context(), p, at_).value());
  EXPECT_TRUE(captured());
}

// A graph's own stream is captured after one Run, or few.
TEST_F(AttentionLibraryTest, AWarmUpBeginsAPlan) {
  AttentionLibrary library;
  const AttentionProblem p = Causal(kRows + 3);
  StreamContext of_graph(0, stream());
  of_graph.workspace().BelongToGraph();
  const OpContext context{.inputs = {}, .outputs = nullptr, .workspace = at_.scratch, .runtime = of_graph};
  EXPECT_FALSE(library.Enqueue(context, p, at_).value());
  PlanStore::Process().WaitForBackground();
  SKIP_WHERE_REFUSED(library.Enqueue(context, p, at_).value());
}

// Each has its plan, found without a lock, whatever comes in between.
TEST_F(AttentionLibraryTest, LengthsThatTakeTurnsKeepTheirPlans) {
  AttentionLibrary library;
  const AttentionProblem one = Causal(), other = Causal(kRows + 1);
  for (const AttentionProblem& p : {one, other}) {
    for (int i = 0; i < AttentionLibrary::kCalls; ++i) EXPECT_FALSE(library.Enqueue(Context(), p, at_).value());
  }
  PlanStore::Process().WaitForBackground();
  SKIP_WHERE_REFUSED(library.Enqueue(Context(), one, at_).value());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(library.Enqueue(Context(), i % 2 == 0 ? other : one, at_).value()) << i;
  EXPECT_EQ(library.queued(), 5u);
}

// There is no thread for it at first.
TEST_F(AttentionLibraryTest, APlanThatCouldNotBeMadeIsTriedAgain) {
  AttentionLibrary library;
  const AttentionProblem p = Causal(kRows + 16);
  const auto taken = [&] {
    const bool is = library.Enqueue(Context(), p, at_).value();
    PlanStore::Process().WaitForBackground();
    return is;
  };
  {
    const cudaep::testing::NoThreads none;
    for (int i = 0; i < AttentionLibrary::kCalls + 2; ++i) EXPECT_FALSE(taken());
  }
  int calls = 0;
  while (calls <= AttentionLibrary::kRetryCalls && !taken()) ++calls;
  SKIP_WHERE_REFUSED(calls <= AttentionLibrary::kRetryCalls);
  EXPECT_GT(calls, 1);  // it was not there before
}

// Its session may end before it has its turn; another one's call has the plan made again.
TEST_F(AttentionLibraryTest, APlanThatWaitsKeepsNoMemoryOfItsSession) {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  auto slot = PlanStore::Process().Get({.problem = "keeps the worker busy"}, [](const std::string&) {
    return Result<LibraryPlanPtr>(std::make_shared<const lib::Plan>());
  });
  CUDAEP_ASSERT_OK(slot.status());
  CUDAEP_ASSERT_OK(PlanStore::Process().ReplaceInBackground(*slot, [gone](const std::string&) {
    gone.wait();
    return Result<LibraryPlanPtr>(NotSupported("only a wait"));
  }));
  const AttentionProblem p = Causal(kRows + 32);
  memory::MemoryConfig config;
  config.limit_bytes = size_t{1} << 30;  // so that nobody shares it
  auto memory = memory::AcquireDeviceMemory(config);
  CUDAEP_ASSERT_OK(memory.status());
  const std::weak_ptr<memory::DeviceMemory> watched = *memory;
  AttentionLibrary library;
  {
    StreamContext session(*memory, stream());
    const OpContext context{.inputs = {}, .outputs = nullptr, .workspace = at_.scratch, .runtime = session};
    for (int call = 0; call < AttentionLibrary::kCalls; ++call) {
      EXPECT_FALSE(library.Enqueue(context, p, at_).value());
    }
    CUDAEP_ASSERT_OK(device::StreamSynchronize(stream()));
  }
  memory = Result<std::shared_ptr<memory::DeviceMemory>>(NotSupported("given up"));
  EXPECT_TRUE(watched.expired());
  go.set_value();
  PlanStore::Process().WaitForBackground();
  SKIP_WHERE_REFUSED(IsTaken(p));
}

// A stream that took its handles makes none in a call.
TEST_F(AttentionLibraryTest, ACallUsesTheHandleOfItsStream) {
  CUDAEP_ASSERT_OK(stream_->TakeHandles({.dnn = true}));
  AttentionLibrary library;
  const AttentionProblem p = Causal();
  const auto taken = [&] { return library.Enqueue(Context(), p, at_).value(); };
  for (int i = 0; i < AttentionLibrary::kCalls; ++i) EXPECT_FALSE(taken());
  PlanStore::Process().WaitForBackground();
  const uint64_t before = DnnHandles().created();
  SKIP_WHERE_REFUSED(taken());
  EXPECT_EQ(DnnHandles().created(), before);
}

// The step itself, before and after the change.
TEST_F(AttentionLibraryTest, TheResultStaysRight) {
  const AttentionProblem p = Causal();
  for (const bool library : {false, true}) {
    Plan plan;
    const std::vector<Shape> outputs;
    auto step = AttentionStep::Make(p, library, {{}, outputs, *stream_, stream_->device_info()}, plan);
    CUDAEP_ASSERT_OK(step.status());
    EXPECT_GE(plan.workspace_bytes, library ? AttentionLibrary::kWorkspaceBytes : 0);
    OpContext context = Context();
    context.workspace = Allocate(plan.workspace_bytes + 1);
    for (int call = 0; call < AttentionLibrary::kCalls + 2; ++call) {
      CUDAEP_ASSERT_OK(device::MemsetAsync(at_.y, 0xFF, static_cast<size_t>(p.queries * p.y.row) * 2, stream()));
      CUDAEP_ASSERT_OK(step->Enqueue(context, p, at_));
      ExpectLastRow(p);
      PlanStore::Process().WaitForBackground();
    }
    SKIP_WHERE_REFUSED(!library || step->library_calls() != 0);
    EXPECT_EQ(step->library_calls(), library ? 2u : 0u);
  }
}

}  // namespace
}  // namespace cudaep::ops
