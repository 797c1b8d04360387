// Runs of graphs that do not end as the host's hooks say.
#include "abi/graph_runs.h"

#include <gtest/gtest.h>

#include <new>

#include "../device/device_fixture.h"
#include "../runtime/limited_memory.h"
#include "failing_memory.h"

namespace cudaep::abi {
namespace {

class GraphRunsTest : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    runs_ = GraphRuns::Create(Settings{}, cudaep::testing::LimitedMemory(0), nullptr).value();
  }
  void TearDown() override {
    runs_.reset();
    DeviceTest::TearDown();
  }
  Status Begin() { return runs_->Begin(nullptr, {}); }

  std::unique_ptr<GraphRuns> runs_;
};

TEST_F(GraphRunsTest, TheNextRunOfTheThreadGivesUpOneThatNeverEnded) {
  ASSERT_OK(Begin());
  ASSERT_OK(Begin());
  EXPECT_TRUE(runs_->IsRunHere());
  EXPECT_OK(runs_->End(true));
  EXPECT_FALSE(runs_->IsRunHere());
}

TEST_F(GraphRunsTest, ARunWhoseEndFindsNoHostMemoryLeavesItsTurnToOthers) {
  runs_->KernelMade();  // which does not run, so that the end has something to tell
  ASSERT_OK(Begin());
  bool thrown = false;
  try {
    const test::FailingMemory once(0, 1);
    runs_->End(true).IgnoreError();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_FALSE(runs_->IsRunHere());
  ASSERT_OK(Begin());
  EXPECT_FAILS(runs_->End(true), kFailedPrecondition, "0 of 1 nodes ran");
}

}  // namespace
}  // namespace cudaep::abi
