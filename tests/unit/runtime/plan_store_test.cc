// Plans are built once, shared, replaced, bounded, and kept in a file that survives damage and other processes.
#include "runtime/plan_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>

#include "core/log.h"
#include "device/device.h"
#include "no_threads.h"
#include "runtime/plan_file.h"

namespace cudaep {
namespace {

class FakePlan : public lib::Plan {
 public:
  FakePlan(std::string choice, size_t workspace_bytes = 0, bool relu = false) {
    choice_ = std::move(choice);
    workspace_bytes_ = workspace_bytes;
    if (relu) remaining_.activation = Activation::kRelu;
  }
  Result<std::string> Save() const override { return StrCat("saved ", choice_); }
};

PlanStore::Make Makes(const std::string& choice) {
  return [choice](const std::string& saved) -> Result<LibraryPlanPtr> {
    return LibraryPlanPtr(std::make_shared<FakePlan>(saved.empty() ? choice : saved));
  };
}

PlanStore::Make Fails(StatusCode code) {
  return [code](const std::string&) -> Result<LibraryPlanPtr> { return Status(code, "cannot"); };
}

PlanStore::Request For(std::string_view problem, std::string_view file = {}) {
  return {.ordinal = 0, .library = "library 1", .problem = problem, .file = file};
}

class PlanStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / StrCat("plan_store_", static_cast<int64_t>(getpid()));
    std::filesystem::create_directories(folder_);
    file = (folder_ / "deep" / "plans").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::string file;
  PlanStore store;
};

TEST_F(PlanStoreTest, AProblemIsBuiltOnceAndShared) {
  const auto first = store.Get(For("a"), Makes("one")), second = store.Get(For("a"), Makes("two"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first.value(), second.value());
  EXPECT_EQ(second.value()->plan().choice(), "one");
  EXPECT_NE(store.Get(For("b"), Makes("three")).value(), first.value());
  PlanStore::Request other = For("a");
  other.ordinal = 1;
  EXPECT_NE(store.Get(other, Makes("four")).value(), first.value());
  EXPECT_EQ(store.statistics().built, 3u);
  EXPECT_EQ(store.statistics().found, 1u);
}

TEST_F(PlanStoreTest, OneBuildsWhileTheOthersWaitAndOtherProblemsGoOn) {
  std::atomic<int> builds{0};
  std::atomic<bool> go{false};
  const PlanStore::Make slow = [&](const std::string&) -> Result<LibraryPlanPtr> {
    ++builds;
    while (!go) std::this_thread::yield();
    return LibraryPlanPtr(std::make_shared<FakePlan>("slow"));
  };
  std::vector<std::thread> threads;
  std::vector<PlanSlotPtr> slots(4);
  for (size_t i = 0; i < slots.size(); ++i) {
    threads.emplace_back([&, i] { slots[i] = store.Get(For("slow"), slow).value(); });
  }
  while (builds == 0) std::this_thread::yield();
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(store.Get(For(StrCat("quick ", i)), Makes("quick")).ok());
  go = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(builds, 1);
  for (const PlanSlotPtr& slot : slots) EXPECT_EQ(slot, slots[0]);
}

TEST_F(PlanStoreTest, OnlyThatItIsNotSupportedIsRemembered) {
  EXPECT_EQ(store.Get(For("a"), Fails(StatusCode::kOutOfMemory)).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(store.Get(For("a"), Fails(StatusCode::kLibraryMissing)).status().code(), StatusCode::kLibraryMissing);
  EXPECT_TRUE(store.Get(For("a"), Makes("one")).ok());
  EXPECT_EQ(store.Get(For("b"), Fails(StatusCode::kNotSupported)).status().code(), StatusCode::kNotSupported);
  EXPECT_EQ(store.Get(For("b"), Makes("one")).status().code(), StatusCode::kNotSupported);
}

TEST_F(PlanStoreTest, AnExceptionOfTheMakerLeavesNobodyWaiting) {
  std::atomic<bool> begun{false};
  const PlanStore::Make throws = [&](const std::string&) -> Result<LibraryPlanPtr> {
    begun = true;
    while (store.statistics().found == 0) std::this_thread::yield();
    throw std::bad_alloc();
  };
  std::thread first([&] { EXPECT_THROW(static_cast<void>(store.Get(For("a"), throws)), std::bad_alloc); });
  while (!begun) std::this_thread::yield();
  EXPECT_EQ(store.Get(For("a"), Makes("one")).value()->plan().choice(), "one");
  first.join();
}

TEST_F(PlanStoreTest, APlanInUseIsReplacedByOneThatNeedsNoMore) {
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

TEST_F(PlanStoreTest, WithoutAThreadThePlanStaysAndIsTriedAgain) {
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

TEST_F(PlanStoreTest, WhatTheWorkerThrowsEndsTheAttemptAlone) {
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

TEST_F(PlanStoreTest, WhatCannotBeIsNotTriedAgain) {
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

TEST_F(PlanStoreTest, NoThreadIsLeftAfterWaiting) {
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

TEST_F(PlanStoreTest, StoppingDropsWhatHasNotBegun) {
  const PlanSlotPtr first = store.Get(For("a"), Makes("first")).value();
  const PlanSlotPtr second = store.Get(For("b"), Makes("first")).value();
  std::atomic<bool> begun{false}, go_on{false};
  ASSERT_TRUE(store
                  .ReplaceInBackground(first,
                                       [&](const std::string&) -> Result<LibraryPlanPtr> {
                                         begun = true;
                                         while (!go_on) std::this_thread::yield();
                                         return Makes("better")({});
                                       })
                  .ok());
  while (!begun) std::this_thread::yield();
  ASSERT_TRUE(store.ReplaceInBackground(second, Makes("better")).ok());
  EXPECT_EQ(second->progress(), PlanSlot::Progress::kMaking);
  EXPECT_EQ(store.statistics().in_background, 2u);
  std::thread stops([&] { store.StopBackground(); });
  while (second->progress() == PlanSlot::Progress::kMaking) std::this_thread::yield();
  go_on = true;
  stops.join();
  EXPECT_EQ(first->plan().choice(), "better");
  EXPECT_EQ(second->plan().choice(), "first");
  EXPECT_EQ(second->progress(), PlanSlot::Progress::kIdle);
  EXPECT_EQ(store.statistics().in_background, 0u);
}

TEST_F(PlanStoreTest, DroppingWaitsForThePlanInTheMakingAlone) {
  const PlanSlotPtr slots[] = {store.Get(For("a"), Makes("first")).value(), store.Get(For("b"), Makes("first")).value(),
                               store.Get(For("c"), Makes("first")).value()};
  std::atomic<int> begun{0}, may_end{0};
  const auto make = [&](const std::string&) -> Result<LibraryPlanPtr> {
    const int me = ++begun;
    while (may_end < me) std::this_thread::yield();
    return Makes("better")({});
  };
  ASSERT_TRUE(store.ReplaceInBackground(slots[0], make).ok());
  while (begun < 1) std::this_thread::yield();
  ASSERT_TRUE(store.ReplaceInBackground(slots[1], make).ok());
  std::atomic<bool> returned{false};
  std::thread drops([&] {
    store.DropBackground();
    returned = true;
  });
  while (slots[1]->progress() == PlanSlot::Progress::kMaking) std::this_thread::yield();
  ASSERT_TRUE(store.ReplaceInBackground(slots[2], make).ok());  // another session's, new
  EXPECT_FALSE(returned);
  may_end = 1;
  drops.join();
  EXPECT_EQ(slots[0]->plan().choice(), "better");
  EXPECT_EQ(slots[1]->plan().choice(), "first");
  EXPECT_EQ(slots[2]->plan().choice(), "first");
  may_end = 2;
  store.WaitForBackground();
  EXPECT_EQ(slots[2]->plan().choice(), "better");
  store.DropBackground();  // nothing to wait for
}

TEST_F(PlanStoreTest, AForkedChildHasNothingToStop) {
  const PlanSlotPtr slot = store.Get(For("a"), Makes("first")).value();
  std::atomic<bool> begun{false}, go_on{false};
  ASSERT_TRUE(store
                  .ReplaceInBackground(slot,
                                       [&](const std::string&) -> Result<LibraryPlanPtr> {
                                         begun = true;
                                         while (!go_on) std::this_thread::yield();
                                         return Makes("better")({});
                                       })
                  .ok());
  while (!begun) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // instead of a wait for a thread that is not there
    store.StopBackground();
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  go_on = true;
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

TEST(PlanStoreDeathTest, TheCompilerOutlivesThePlanInTheMaking) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ExitWithinThePlan(), ::testing::ExitedWithCode(0), "");
}

TEST_F(PlanStoreTest, PlansThatNobodyHoldsAreBounded) {
  const PlanSlotPtr held = store.Get(For("held"), Makes("held")).value();
  for (size_t i = 0; i < 3 * PlanStore::kMostPlans; ++i) {
    ASSERT_TRUE(store.Get(For(StrCat(i)), Makes("one")).ok());
  }
  const PlanStore::Statistics statistics = store.statistics();
  EXPECT_LE(statistics.built - statistics.dropped, PlanStore::kMostPlans);
  EXPECT_EQ(store.Get(For("held"), Makes("other")).value(), held);
}

TEST_F(PlanStoreTest, AnotherProcessLoadsWhatWasSaved) {
  ASSERT_TRUE(store.Get(For("a", file), Makes("one")).ok());
  ASSERT_TRUE(store.Save().ok());
  PlanStore second;
  EXPECT_EQ(second.Get(For("a", file), Makes("two")).value()->plan().choice(), "saved one");
  EXPECT_EQ(second.statistics().loaded, 1u);
  EXPECT_EQ(second.statistics().built, 0u);
  PlanStore::Request newer = For("a", file);
  newer.library = "library 2";
  EXPECT_EQ(second.Get(newer, Makes("three")).value()->plan().choice(), "three");
}

TEST_F(PlanStoreTest, APlanOfAnotherDriverIsNotUsed) {
  const PlanStore::Request request = For("a", file);
  const auto key_of = [&](int driver) {
    const auto info = device::GetDeviceInfo(request.ordinal);
    return StrCat(info.ok() ? std::string_view(info.value()->name) : "no device", " driver ", driver, " runtime ",
                  device::RuntimeVersion(), '|', request.library, '|', request.problem);
  };
  PlanFile other(file);
  other.Put(key_of(device::DriverVersion() + 10), "saved there");
  ASSERT_TRUE(other.Save().ok());
  EXPECT_EQ(store.Get(request, Makes("own")).value()->plan().choice(), "own");
  EXPECT_EQ(store.statistics().loaded, 0u);
  ASSERT_TRUE(store.Save().ok());
  EXPECT_EQ(PlanFile(file).Find(key_of(device::DriverVersion())), "saved own");
  EXPECT_EQ(PlanFile(file).Find(key_of(device::DriverVersion() + 10)), "saved there");
}

TEST_F(PlanStoreTest, APlanThatIsThereGoesIntoEveryAskersFile) {
  const std::string other = file + " of another session";
  const PlanSlotPtr slot = store.Get(For("a", file), Makes("one")).value();
  ASSERT_TRUE(slot->Replace(std::make_shared<FakePlan>("better")).ok());  // which is found again by itself
  ASSERT_TRUE(store.Get(For("a", other), Makes("two")).ok());
  ASSERT_TRUE(store.Save().ok());
  PlanStore second;
  EXPECT_EQ(second.Get(For("a", other), Makes("three")).value()->plan().choice(), "saved one");
}

TEST_F(PlanStoreTest, ProcessesThatWriteInTurnKeepEachOthersPlans) {
  PlanStore second;
  ASSERT_TRUE(store.Get(For("a", file), Makes("one")).ok());
  ASSERT_TRUE(second.Get(For("b", file), Makes("two")).ok());
  ASSERT_TRUE(store.Save().ok());
  ASSERT_TRUE(second.Save().ok());
  PlanStore third;
  EXPECT_EQ(third.Get(For("a", file), Makes("x")).value()->plan().choice(), "saved one");
  EXPECT_EQ(third.Get(For("b", file), Makes("x")).value()->plan().choice(), "saved two");
  int entries = 0;  // the file and its lock, no left-overs
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "deep")) entries += entry.exists() ? 1 : 0;
  EXPECT_EQ(entries, 2);
}

TEST_F(PlanStoreTest, ADamagedFileIsNotUsedAndWrittenAnew) {
  ASSERT_TRUE(store.Get(For("a", file), Makes("one")).ok());
  ASSERT_TRUE(store.Save().ok());
  std::ifstream in(file, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (size_t cut : {size_t{3}, whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE(cut);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << whole.substr(0, cut);
    PlanStore second;
    EXPECT_EQ(second.Get(For("a", file), Makes("two")).value()->plan().choice(), "two");
  }
  std::string flipped = whole;
  flipped[whole.size() - 3] ^= 1;
  std::ofstream(file, std::ios::binary | std::ios::trunc) << flipped;
  PlanStore second;
  EXPECT_EQ(second.Get(For("a", file), Makes("two")).value()->plan().choice(), "two");
  ASSERT_TRUE(second.Save().ok());
  PlanStore third;
  EXPECT_EQ(third.Get(For("a", file), Makes("x")).value()->plan().choice(), "saved two");
}

TEST_F(PlanStoreTest, ASavedPlanThatDoesNotLoadIsBuilt) {
  ASSERT_TRUE(store.Get(For("a", file), Makes("one")).ok());
  ASSERT_TRUE(store.Save().ok());
  PlanStore second;
  const auto plan = second.Get(For("a", file), [](const std::string& saved) -> Result<LibraryPlanPtr> {
    if (!saved.empty()) return NotSupported("from another world");
    return LibraryPlanPtr(std::make_shared<FakePlan>("fresh"));
  });
  EXPECT_EQ(plan.value()->plan().choice(), "fresh");
}

TEST_F(PlanStoreTest, AFolderThatCannotBeWrittenIsNamed) {
  int warnings = 0;
  const LogSink sink(
      [](void* to, LogLevel level, std::string_view) { *static_cast<int*>(to) += level == LogLevel::kWarning ? 1 : 0; },
      &warnings);
  ASSERT_TRUE(store.Get(For("a", "/proc/no/such/plans"), Makes("one")).ok());
  EXPECT_EQ(warnings, 1);
  ASSERT_TRUE(store.Get(For("b", "/proc/no/such/plans"), Makes("two")).ok());
  EXPECT_EQ(warnings, 1);
  const Status status = store.Save();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("/proc/no/such/plans"), std::string_view::npos) << status.ToString();
}

}  // namespace
}  // namespace cudaep
