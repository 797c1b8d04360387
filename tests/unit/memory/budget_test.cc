#include "memory/budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cudaep::memory {
namespace {

TEST(Budget, RefusesWhatExceedsTheLimit) {
  Budget budget(1000);
  EXPECT_TRUE(budget.TryCharge(BudgetKind::kArena, 600));
  EXPECT_FALSE(budget.TryCharge(BudgetKind::kWeights, 401));
  EXPECT_FALSE(budget.TryCharge(BudgetKind::kWeights, SIZE_MAX));
  EXPECT_EQ(budget.available_bytes(), 400u);
  EXPECT_TRUE(budget.TryCharge(BudgetKind::kWeights, 400));
  EXPECT_EQ(budget.available_bytes(), 0u);
  budget.Release(BudgetKind::kArena, 600);
  EXPECT_EQ(budget.charged_bytes(), 400u);
  EXPECT_EQ(budget.charged_bytes(BudgetKind::kWeights), 400u);
}

TEST(Budget, MeasuredBytesMayExceedTheLimit) {
  Budget budget(1000);
  budget.ChargeMeasured(BudgetKind::kLibraries, 1500);
  EXPECT_EQ(budget.available_bytes(), 0u);
  EXPECT_FALSE(budget.TryCharge(BudgetKind::kArena, 1));
  EXPECT_EQ(budget.Describe(), "limit 1000 B, charged 1.5 KiB: libraries 1.5 KiB");
}

TEST(Budget, WithoutALimitItOnlyCounts) {
  Budget budget;
  EXPECT_TRUE(budget.TryCharge(BudgetKind::kArena, SIZE_MAX / 2));
  EXPECT_EQ(budget.available_bytes(), SIZE_MAX);
}

TEST(Budget, ManyThreadsNeverExceedTheLimit) {
  Budget budget(64);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 2000; ++n) {
        if (!budget.TryCharge(BudgetKind::kArena, 10)) continue;
        EXPECT_LE(budget.charged_bytes(), 64u);
        budget.Release(BudgetKind::kArena, 10);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(budget.charged_bytes(), 0u);
}

}  // namespace
}  // namespace cudaep::memory
