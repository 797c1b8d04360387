// Plans are built once, shared, bounded, and kept in a file that survives damage and other processes.
#include "runtime/plan_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>

#include "core/log.h"
#include "core/strings.h"
#include "device/device.h"
#include "device/device_info.h"
#include "fake_plans.h"
#include "runtime/plan_file.h"

namespace cudaep {
namespace {

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
