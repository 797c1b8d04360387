// Plans in use are replaced by what the store's own thread makes, which stops for the last session, an exit and a fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "fake_plans.h"
#include "no_threads.h"
#include "runtime/plan_store.h"

namespace cudaep {
namespace {

class PlanReplacementTest : public ::testing::Test {
 protected:
  PlanStore store;
};

// Makes a better plan once it may end.
struct HeldMaker {
  std::atomic<bool> begun{false}, may_end{false};

  PlanStore::Make make() {
    return [this](const std::string&) -> Result<LibraryPlanPtr> {
      begun = true;
      while (!may_end) std::this_thread::yield();
      return Makes("better")({});
    };
  }
  void AwaitBegin() const {
    while (!begun) std::this_thread::yield();
  }
};

TEST_F(PlanReplacementTest, APlanInUseIsReplacedByOneThatNeedsNoMore) {
  const PlanSlotPtr slot = store
                               .Get(For("a"),
                                    [](const std::string&) -> Result<LibraryPlanPtr> {
                                      return LibraryPlanPtr(std::make_shared<FakePlan>("first", 64));
                                    })
                               .value();
  const lib::Plan& first = slot->plan();
  EXPECT_EQ(slot->Replace(std::make_shared<FakePlan>("wide", 65)).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(slot->Replace(std::make_shared<FakePlan>("less", 0, true)).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store.ReplaceInBackground(slot, Fails(StatusCode::kDeviceError)).ok());
  store.WaitForBackground();
  EXPECT_EQ(&slot->plan(), &first);
  ASSERT_TRUE(store.ReplaceInBackground(slot, Makes("better")).ok());
  store.WaitForBackground();
  EXPECT_EQ(slot->plan().choice(), "better");
  EXPECT_EQ(first.choice(), "first");  // still there for who reads it
}

TEST_F(PlanReplacementTest, WithoutAThreadThePlanStaysAndIsTriedAgain) {
  const PlanSlotPtr slot = store.Get(For("a"), Makes("first")).value();
  {
    const testing::NoThreads none;
    const Status refused = store.ReplaceInBackground(slot, Makes("better"));
    EXPECT_EQ(refused.code(), StatusCode::kNotReady);
    EXPECT_NE(refused.message().find("no thread"), std::string_view::npos);
  }
  EXPECT_EQ(slot->progress(), PlanSlot::Progress::kIdle);
  store.WaitForBackground();
  EXPECT_EQ(slot->plan().choice(), "first");
  ASSERT_TRUE(store.ReplaceInBackground(slot, Makes("better")).ok());
  store.WaitForBackground();
  EXPECT_EQ(slot->plan().choice(), "better");
}

TEST_F(PlanReplacementTest, WhatTheWorkerThrowsEndsTheAttemptAlone) {
  const PlanSlotPtr slot = store.Get(For("a"), Makes("first")).value();
  const PlanSlotPtr next = store.Get(For("b"), Makes("first")).value();
  ASSERT_TRUE(
      store.ReplaceInBackground(slot, [](const std::string&) -> Result<LibraryPlanPtr> { throw std::bad_alloc(); })
          .ok());
  ASSERT_TRUE(store.ReplaceInBackground(next, Makes("better")).ok());
  store.WaitForBackground();
  EXPECT_EQ(slot->progress(), PlanSlot::Progress::kIdle);
  EXPECT_EQ(slot->plan().choice(), "first");
  EXPECT_EQ(next->plan().choice(), "better");
}

TEST_F(PlanReplacementTest, WhatCannotBeIsNotTriedAgain) {
  const PlanSlotPtr slot = store.Get(For("a"), Makes("first")).value();
  ASSERT_TRUE(store.ReplaceInBackground(slot, Fails(StatusCode::kDeviceError)).ok());
  store.WaitForBackground();
  EXPECT_EQ(slot->progress(), PlanSlot::Progress::kIdle);
  ASSERT_TRUE(store.ReplaceInBackground(slot, Fails(StatusCode::kNotSupported)).ok());
  store.WaitForBackground();
  EXPECT_EQ(slot->progress(), PlanSlot::Progress::kRefused);
  ASSERT_TRUE(store.ReplaceInBackground(slot, Makes("better")).ok());
  store.WaitForBackground();
  EXPECT_EQ(slot->plan().choice(), "first");
}

// Counts the threads that are gone, their thread-local objects with them: only a joined one is certain to be.
std::atomic<int> g_threads_ended{0};
struct CountsItsEnd {
  bool used = false;
  ~CountsItsEnd() {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++g_threads_ended;
  }
};
thread_local CountsItsEnd t_counted;

TEST_F(PlanReplacementTest, NoThreadIsLeftAfterWaiting) {
  const PlanSlotPtr slot = store.Get(For("a"), Makes("first")).value();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(store
                    .ReplaceInBackground(slot,
                                         [](const std::string&) -> Result<LibraryPlanPtr> {
                                           t_counted.used = true;
                                           return Status(StatusCode::kDeviceError, "cannot");
                                         })
                    .ok());
    store.WaitForBackground();
    EXPECT_EQ(g_threads_ended, i);
  }
}

TEST_F(PlanReplacementTest, StoppingDropsWhatHasNotBegun) {
  const PlanSlotPtr first = store.Get(For("a"), Makes("first")).value();
  const PlanSlotPtr second = store.Get(For("b"), Makes("first")).value();
  HeldMaker held;
  ASSERT_TRUE(store.ReplaceInBackground(first, held.make()).ok());
  held.AwaitBegin();
  ASSERT_TRUE(store.ReplaceInBackground(second, Makes("better")).ok());
  EXPECT_EQ(second->progress(), PlanSlot::Progress::kMaking);
  EXPECT_EQ(store.statistics().in_background, 2u);
  std::thread stops([&] { store.StopBackground(); });
  while (second->progress() == PlanSlot::Progress::kMaking) std::this_thread::yield();
  held.may_end = true;
  stops.join();
  EXPECT_EQ(first->plan().choice(), "better");
  EXPECT_EQ(second->plan().choice(), "first");
  EXPECT_EQ(second->progress(), PlanSlot::Progress::kIdle);
  EXPECT_EQ(store.statistics().in_background, 0u);
}

TEST_F(PlanReplacementTest, DroppingWaitsForThePlanInTheMakingAlone) {
  const PlanSlotPtr slots[] = {store.Get(For("a"), Makes("first")).value(), store.Get(For("b"), Makes("first")).value(),
                               store.Get(For("c"), Makes("first")).value()};
  HeldMaker held, newcomer;
  ASSERT_TRUE(store.ReplaceInBackground(slots[0], held.make()).ok());
  held.AwaitBegin();
  ASSERT_TRUE(store.ReplaceInBackground(slots[1], Makes("better")).ok());
  std::atomic<bool> returned{false};
  std::thread drops([&] {
    store.DropBackground();
    returned = true;
  });
  while (slots[1]->progress() == PlanSlot::Progress::kMaking) std::this_thread::yield();
  ASSERT_TRUE(store.ReplaceInBackground(slots[2], newcomer.make()).ok());  // another session's
  EXPECT_FALSE(returned);
  held.may_end = true;
  drops.join();
  EXPECT_EQ(slots[0]->plan().choice(), "better");
  EXPECT_EQ(slots[1]->plan().choice(), "first");
  EXPECT_EQ(slots[2]->plan().choice(), "first");
  newcomer.may_end = true;
  store.WaitForBackground();
  EXPECT_EQ(slots[2]->plan().choice(), "better");
  store.DropBackground();  // nothing to wait for
}

TEST_F(PlanReplacementTest, AForkedChildHasNothingToStop) {
  const PlanSlotPtr slot = store.Get(For("a"), Makes("first")).value();
  HeldMaker held;
  ASSERT_TRUE(store.ReplaceInBackground(slot, held.make()).ok());
  held.AwaitBegin();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // instead of a wait for a thread that is not there
    store.StopBackground();
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  held.may_end = true;
  store.StopBackground();
  EXPECT_EQ(slot->plan().choice(), "better");
}

// Like what a library makes when it compiles for the first time.
std::atomic<bool> g_compiler_is_gone{false};
struct Compiler {
  ~Compiler() {
    g_compiler_is_gone = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the worker sees it
  }
};

// Exits while a second plan is in the making; 3 where the compiler went first, 4 and 5 where more are made.
[[noreturn]] void ExitWithinThePlan() {
  PlanStore& process = PlanStore::Process();
  const PlanSlotPtr slot = process.Get(For("exit"), Makes("first")).value();
  static std::atomic<bool> begun{false};
  const auto compile = [](const std::string&) -> Result<LibraryPlanPtr> {
    static const Compiler compiler;
    begun = true;
    for (int i = 0; i < 200; ++i) {
      if (g_compiler_is_gone) _exit(3);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status(StatusCode::kDeviceError, "cannot");
  };
  // Runs last: a session that lives on gets no plan.
  static_cast<void>(std::atexit([] {
    const PlanSlotPtr late = PlanStore::Process().Get(For("late"), Makes("first")).value();
    if (PlanStore::Process().ReplaceInBackground(late, Makes("better")).code() != StatusCode::kNotReady) _exit(4);
    if (late->progress() != PlanSlot::Progress::kIdle) _exit(5);
  }));
  process.ReplaceInBackground(slot, compile).IgnoreError();
  process.WaitForBackground();
  begun = false;
  process.ReplaceInBackground(slot, compile).IgnoreError();
  while (!begun) std::this_thread::yield();
  std::exit(0);
}

TEST(PlanReplacementDeathTest, TheCompilerOutlivesThePlanInTheMaking) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ExitWithinThePlan(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cudaep
