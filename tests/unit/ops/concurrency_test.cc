// Many threads over shared operators, each with a stream of its own: results bit-equal to one thread's.
//
// What a session's concurrent Runs do below the host's ABI: one PlannedOperator for each node, one StreamContext for
// each thread, tensors from one arena, tagged with the thread's stream and given back while the work that uses them is
// still queued. Input sizes change with every Run, so that plans are built, found and replaced by several threads at
// once; scratch memory is used by most of the nodes. The simulated device refuses memory that two streams use without
// an order between them, and the tsan preset watches the host's side.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <numeric>
#include <thread>

#include "core/strings.h"
#include "device/sim/sim.h"
#include "memory/memory_registry.h"
#include "node.h"
#include "ops/planned_operator.h"

namespace cudaep::ops {
namespace {

constexpr int64_t kColumns = 48, kFeatures = 64;
constexpr auto kTime = std::chrono::milliseconds(1500);
constexpr int kFewestRuns = 4;  // of each thread, where a sanitizer takes longer than that

std::vector<float> Values(size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / static_cast<float>(1 << 24) - 0.5f;
  }
  return values;
}

// One node: its operator, and where inputs come from: constants by index, the tensor of the Run otherwise.
struct Step {
  PlannedOperator planned;
  std::vector<int> constants;  // of the inputs after the first
  std::vector<int64_t> view;   // dimensions after the first that the Run's tensor is given before; empty: as it is
};

class Chain {
 public:
  explicit Chain(device::Stream stream) {
    Add("", "Conv", 11, {Constant({3, 3, 3, 3}, stream), Constant({3}, stream)},
        {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    steps_.back().view = {3, 4, 4};
    Add("", "MatMul", 13, {Constant({kColumns, kFeatures}, stream)});
    steps_.back().view = {kColumns};
    Add("", "Add", 14, {Constant({kFeatures}, stream)});
    Add("", "LayerNormalization", 17, {Constant({kFeatures}, stream), Constant({kFeatures}, stream)});
    Add("", "Softmax", 13, {}, {{"axis", int64_t{-1}}});
    Add("", "Transpose", 21, {}, {{"perm", std::vector<int64_t>{1, 0}}});
    Add("", "ReduceL2", 11, {}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
    Add("", "Pow", 15, {Constant({1, 1}, stream)});
    Add("", "Tanh", 13, {});
  }

  // The result for `rows` rows, as the calling thread's Run on its own stream. Tensors go back to the arena right after
  // the last launch that uses them.
  Result<std::vector<float>> Run(int64_t rows, StreamContext& stream, memory::Allocator& arena) {
    const std::vector<float> source = Values(static_cast<size_t>(rows * kColumns), static_cast<unsigned>(rows));
    std::vector<int64_t> dims{rows, kColumns};
    const size_t bytes = source.size() * sizeof(float);
    CUDAEP_ASSIGN_OR_RETURN(void* current, arena.AllocateOnStream(bytes, stream.stream()));
    CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(current, source.data(), bytes, stream.stream()));
    for (Step& step : steps_) {
      if (!step.view.empty()) {
        dims.resize(1);
        dims.insert(dims.end(), step.view.begin(), step.view.end());
      }
      std::vector<TensorView> inputs{View(current, dims)};
      for (const int index : step.constants) {
        const Weights& constant = constants_[static_cast<size_t>(index)];
        inputs.push_back(View(constant.memory.get(), constant.dims));
      }
      PlanPin pin(stream.plan_pins());
      CUDAEP_ASSIGN_OR_RETURN(const PlannedCall call, step.planned.PlanFor(pin, inputs, stream));
      const Shape& shape = call.outputs[0];
      CUDAEP_ASSIGN_OR_RETURN(
          void* next,
          arena.AllocateOnStream(static_cast<size_t>(ElementCount(shape.dims())) * sizeof(float), stream.stream()));
      std::vector<void*> outputs(call.outputs.size(), nullptr);
      outputs[0] = next;
      CUDAEP_RETURN_IF_ERROR(step.planned.Enqueue(pin, call, inputs, outputs.data(), nullptr, stream));
      dims.assign(shape.dims().begin(), shape.dims().end());
      arena.Free(std::exchange(current, next));
    }
    std::vector<float> result(static_cast<size_t>(ElementCount(Shape(dims).dims())));
    CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(result.data(), current, result.size() * sizeof(float), stream.stream()));
    arena.Free(current);
    return result;
  }

 private:
  struct Weights {
    device::UniqueDeviceMemory memory;
    std::vector<int64_t> dims;
  };

  static TensorView View(const void* data, const std::vector<int64_t>& dims) {
    return {.data = data, .dim = dims.data(), .rank = static_cast<int32_t>(dims.size()), .type = DataType::kFloat};
  }

  int Constant(std::vector<int64_t> dims, device::Stream stream) {
    const auto count = static_cast<size_t>(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()));
    const std::vector<float> values = Values(count, static_cast<unsigned>(constants_.size() + 77));
    Weights& constant = constants_.emplace_back();
    constant.dims = std::move(dims);
    EXPECT_TRUE(device::Malloc(constant.memory.Receive(), count * sizeof(float)).ok());
    EXPECT_TRUE(device::MemcpyAsync(constant.memory.get(), values.data(), count * sizeof(float), stream).ok());
    EXPECT_TRUE(device::StreamSynchronize(stream).ok());
    return static_cast<int>(constants_.size()) - 1;
  }

  void Add(const char* domain, const char* op, int version, std::vector<int> constants,
           ops::Attributes attributes = {}) {
    test::Node node(domain, op, version);
    node.inputs.resize(1 + constants.size());
    for (test::InputTensor& input : node.inputs) input.type = DataType::kFloat;
    node.outputs = {DataType::kFloat};
    node.attributes = std::move(attributes);
    Step& step = steps_.emplace_back();
    step.constants = std::move(constants);
    const Status status = step.planned.Init(node);
    EXPECT_TRUE(status.ok()) << op << ": " << status.ToString();
  }

  std::vector<Weights> constants_;
  std::deque<Step> steps_;
};

class ConcurrencyTest : public testing::TestWithParam<device::sim::Mode> {
 protected:
  void SetUp() override {
    device::sim::Configuration configuration;
    configuration.mode = GetParam();
    ASSERT_TRUE(device::sim::Configure(configuration).ok());
  }
  void TearDown() override { ASSERT_TRUE(device::sim::Configure({}).ok()); }
};

// What a thread's Runs need, in the order in which a session releases it.
struct Lane {
  device::UniqueStream stream;
  std::unique_ptr<StreamContext> context;

  explicit Lane(const std::shared_ptr<memory::DeviceMemory>& memory) {
    EXPECT_TRUE(device::StreamCreate(stream.Receive()).ok());
    context = std::make_unique<StreamContext>(memory, stream.get());
    memory->AddStream(stream.get());
  }
  ~Lane() {
    EXPECT_TRUE(device::StreamSynchronize(stream.get()).ok());
    context.reset();
    memory::StreamEnded(0, stream.get());
  }
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(ConcurrencyTest, ThirtyTwoThreadsOfMixedShapesAgreeWithOne) {
  // More sizes than fit an operator's first table of plans; one long enough to be reduced by several blocks.
  std::vector<int64_t> sizes(9 * PlanCache::kWays);
  std::iota(sizes.begin(), sizes.end(), int64_t{1});
  sizes.push_back(1200);
  const auto memory = memory::AcquireDeviceMemory({}).value();
  const auto arena = memory->tensors();
  std::atomic<int> runs{0};
  std::vector<std::string> wrong(32);
  {
    Lane serial(memory);
    Chain chain(serial.stream.get());
    std::vector<std::vector<float>> expected;
    for (const int64_t rows : sizes) {
      Result<std::vector<float>> result = chain.Run(rows, *serial.context, *arena);
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      expected.push_back(std::move(result).value());
      ASSERT_EQ(expected.back().size(), static_cast<size_t>(kFeatures));
    }
    const auto end = std::chrono::steady_clock::now() + kTime;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        Lane lane(memory);
        unsigned seed = t + 1;
        for (int i = 0; wrong[t].empty() && (i < kFewestRuns || std::chrono::steady_clock::now() < end); ++i) {
          seed = seed * 1664525u + 1013904223u;
          const size_t choice = (seed >> 8) % sizes.size();
          Result<std::vector<float>> result = chain.Run(sizes[choice], *lane.context, *arena);
          ++runs;
          if (!result.ok()) {
            wrong[t] = result.status().ToString();
          } else if (!SameBits(result.value(), expected[choice])) {
            wrong[t] = StrCat("other numbers for ", sizes[choice], " rows");
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
  EXPECT_GE(runs, 32 * kFewestRuns);
  RecordProperty("runs", runs);
}

INSTANTIATE_TEST_SUITE_P(Modes, ConcurrencyTest,
                         testing::Values(device::sim::Mode::kLate, device::sim::Mode::kRandom,
                                         device::sim::Mode::kEager));

}  // namespace
}  // namespace cudaep::ops
