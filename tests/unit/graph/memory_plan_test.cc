#include "graph/exec/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace cudaep::graph {
namespace {

bool Meet(const BufferLife& a, const BufferLife& b) { return a.first <= b.last && b.first <= a.last; }

// Aligned, inside the block, and apart from all that lives at the same time.
void ExpectSound(const std::vector<BufferLife>& buffers, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % kBufferAlignment, 0u);
    EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      if (!Meet(buffers[i], buffers[j]) || buffers[i].bytes == 0 || buffers[j].bytes == 0) continue;
      EXPECT_TRUE(plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                  plan.offsets[j] + buffers[j].bytes <= plan.offsets[i])
          << i << " and " << j;
    }
  }
}

// The most bytes that live at one step, each buffer rounded up.
size_t MostAtOnce(const std::vector<BufferLife>& buffers, int steps) {
  size_t most = 0;
  for (int step = 0; step < steps; ++step) {
    size_t bytes = 0;
    for (const BufferLife& buffer : buffers) {
      if (buffer.first <= step && step <= buffer.last) bytes += (buffer.bytes + 255) / 256 * 256;
    }
    most = std::max(most, bytes);
  }
  return most;
}

TEST(MemoryPlan, NothingNeedsNothing) {
  EXPECT_EQ(PlanMemory({}).bytes, 0u);
  const std::vector<BufferLife> empty = {{0, 0, 3}, {0, 1, 2}};
  EXPECT_EQ(PlanMemory(empty).bytes, 0u);
}

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<BufferLife> chain;
  for (int step = 0; step < 50; ++step) chain.push_back({1000, step, step + 1});
  const MemoryPlan plan = PlanMemory(chain);
  ExpectSound(chain, plan);
  EXPECT_EQ(plan.bytes, 2048u);
}

TEST(MemoryPlan, TheSmallestGapThatFitsIsTaken) {
  // At step 2 the gaps are 1024 bytes at 0 and 512 bytes at 1280.
  const std::vector<BufferLife> buffers = {{1024, 0, 1}, {256, 0, 3}, {512, 0, 1}, {256, 0, 3}, {512, 2, 2}};
  const MemoryPlan plan = PlanMemory(buffers);
  ExpectSound(buffers, plan);
  EXPECT_EQ(plan.bytes, 2048u);
}

TEST(MemoryPlan, RandomLivesStayApartAndCloseToTheBound) {
  std::mt19937 random(1);
  size_t planned = 0, bound = 0;
  for (int round = 0; round < 200; ++round) {
    const int steps = 2 + static_cast<int>(random() % 60);
    std::vector<BufferLife> buffers;
    for (int i = 0; i < steps; ++i) {
      const int first = static_cast<int>(random() % static_cast<unsigned>(steps));
      const int last = first + static_cast<int>(random() % (1 + random() % static_cast<unsigned>(steps)));
      buffers.push_back({random() % 10 == 0 ? 0 : 1 + random() % 5000, first, std::min(last, steps - 1)});
    }
    const MemoryPlan plan = PlanMemory(buffers);
    ExpectSound(buffers, plan);
    planned += plan.bytes;
    bound += MostAtOnce(buffers, steps);
  }
  EXPECT_LE(planned, bound + bound / 10);
}

}  // namespace
}  // namespace cudaep::graph
