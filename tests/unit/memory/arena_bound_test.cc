// What an arena reserves, in proportion to what is in use, over thousands of Runs.
#include <random>

#include "arena_fixture.h"
#include "device/sim/sanitizers.h"

namespace cudaep::memory {
namespace {

using testing::ArenaTest;
using testing::kMiB;
namespace sim = device::sim;

// Runs of one model with a random batch on eight streams, interleaved node by node: each node's output is as large as
// the batch times a constant of the node, and lives until a later node has read it. Outputs of the model live longer.
class ModelRuns {
 public:
  ModelRuns(Arena* arena, bool tells_idle, unsigned seed) : arena_(arena), tells_idle_(tells_idle), random_(seed) {
    for (Node& node : nodes_) {
      node.bytes_per_item = (size_t{1} << (12 + random_() % 8)) + random_() % 5000;
      node.reader = static_cast<size_t>(&node - nodes_) + 1 + random_() % 4;
    }
    for (Lane& lane : lanes_) {
      EXPECT_TRUE(device::StreamCreate(lane.stream.Receive()).ok());
      Begin(&lane);
    }
  }
  ~ModelRuns() {
    for (Lane& lane : lanes_) {
      End(&lane);
      device::StreamSynchronize(lane.stream.get()).IgnoreError();
      arena_->ReleaseStream(lane.stream.get());
    }
  }

  void Go(int runs) {
    for (const int until = runs_ + runs; runs_ < until;) {
      Lane& lane = lanes_[random_() % std::size(lanes_)];
      if (lane.next == kNodes) {
        End(&lane);
        ++runs_;
        Begin(&lane);
        continue;
      }
      const size_t bytes = nodes_[lane.next].bytes_per_item * lane.batch;
      Result<void*> pointer = arena_->AllocateOnStream(bytes, lane.stream.get());
      ASSERT_TRUE(pointer.ok()) << pointer.status().ToString();
      lane.live[lane.next] = {pointer.value(), bytes};
      live_ += bytes;
      peak_ = std::max(peak_, live_);
      for (size_t i = 0; i < lane.next; ++i) {
        if (nodes_[i].reader == lane.next) Free(&lane.live[i]);
      }
      ++lane.next;
    }
  }
  size_t peak() const { return peak_; }

 private:
  static constexpr size_t kNodes = 60;
  struct Node {
    size_t bytes_per_item, reader;
  };
  struct Live {
    void* pointer = nullptr;
    size_t bytes = 0;
  };
  struct Lane {
    device::UniqueStream stream;
    Live live[kNodes];
    size_t batch = 1, next = 0;
  };
  void Begin(Lane* lane) {
    lane->batch = 1 + random_() % 100;
    lane->next = 0;
  }
  void Free(Live* live) {
    arena_->Free(live->pointer);
    live_ -= live->bytes;
    *live = {};
  }
  void End(Lane* lane) {
    for (Live& live : lane->live) Free(&live);
    if (!tells_idle_) return;
    const StreamMark before = arena_->Mark(lane->stream.get());
    device::StreamSynchronize(lane->stream.get()).IgnoreError();
    arena_->Reached(before);
  }

  Arena* arena_;
  bool tells_idle_;
  std::mt19937 random_;
  Node nodes_[kNodes];
  Lane lanes_[8];
  size_t live_ = 0, peak_ = 0;
  int runs_ = 0;
};

struct Load {
  const char* name;
  ExtendStrategy strategy;
  bool tells_idle;
  sim::Mode mode;
  int rounds;  // of a thousand Runs
  size_t slack = ArenaConfig{}.slack_bytes;
};
class ArenaBoundTest : public ArenaTest, public ::testing::WithParamInterface<Load> {};

// The same thousand Runs again and again: once their peak is known, nothing may grow any more.
TEST_P(ArenaBoundTest, RandomRunsStayWithinTheBoundAndDoNotGrow) {
  Load load = GetParam();
  if (sim::kThreadSanitizer) load.rounds = 2;  // there each takes over ten times as long
  // Small, so that an arena whose addresses spread further and further comes to their end.
  sim::Configuration machine = With(load.mode);
  machine.memory_bytes = size_t{1} << 30;
  Start(machine);
  Make({.extend_strategy = load.strategy, .slack_bytes = load.slack});
  size_t peak = 0;
  int64_t early = 0;
  for (int round = 0; round < load.rounds; ++round) {
    ModelRuns runs(arena_.get(), load.tells_idle, 7);
    runs.Go(1000);
    peak = std::max(peak, runs.peak());
    if (round == (load.rounds - 1) / 2) early = arena_->Stats().peak_bytes_reserved;
  }
  const AllocatorStats stats = arena_->Stats();
  const double ratio = static_cast<double>(stats.peak_bytes_reserved) / static_cast<double>(peak);
  RecordProperty("reserved_over_peak_percent", static_cast<int>(100 * ratio));
  RecordProperty("peak_mib", static_cast<int>(peak / kMiB));
  RecordProperty("stream_waits", static_cast<int>(stats.stream_waits));
  RecordProperty("driver_allocations", static_cast<int>(stats.driver_allocations));
  EXPECT_LE(stats.peak_bytes_reserved, static_cast<int64_t>(peak + peak / 2 + load.slack));
  EXPECT_LE(stats.peak_bytes_reserved, early + early / 16) << "it grows";
}

INSTANTIATE_TEST_SUITE_P(
    Loads, ArenaBoundTest,
    ::testing::Values(Load{"doubling", ExtendStrategy::kNextPowerOfTwo, true, sim::Mode::kLate, 10},
                      Load{"exact", ExtendStrategy::kSameAsRequested, true, sim::Mode::kLate, 2},
                      Load{"no_slack", ExtendStrategy::kNextPowerOfTwo, true, sim::Mode::kLate, 6, 0},
                      Load{"nobody_waits", ExtendStrategy::kNextPowerOfTwo, false, sim::Mode::kEager, 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cudaep::memory
