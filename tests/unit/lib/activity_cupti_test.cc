// lib/cuda's trace over a CUPTI that the test plays the device for: whose work is whose, and that nothing is lost.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "device/sim/sim.h"
#include "fake_cupti.h"
#include "lib/activity.h"
#include "lib/library_path.h"

namespace cudaep::lib {
namespace {

class Told final : public ActivitySink {
 public:
  void Take(std::span<const Activity> activities) override {
    const std::lock_guard lock(mutex_);
    all_.insert(all_.end(), activities.begin(), activities.end());
  }
  std::vector<Activity> OfScope(uint64_t scope) const {
    std::vector<Activity> found;
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(found), [&](const auto& a) { return a.scope == scope; });
    return found;
  }
  size_t size() const { return all_.size(); }

 private:
  std::mutex mutex_;
  std::vector<Activity> all_;
};

class CuptiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StartDevices();
    SetLibraryPath(CUDAEP_TEST_CUPTI_DIR);
    auto found = FindActivityTrace();
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    trace_ = found.value();
    void* const library = dlopen(CUDAEP_TEST_CUPTI_DIR "/libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    fake_ = reinterpret_cast<FakeCupti* (*)()>(dlsym(library, "fakeCupti"))();
    fake_->forced = fake_->flushes = 0;
    UseDevice(1);
  }
  void TearDown() override {
    device::sim::ObserveActivity(nullptr);
    fake_->at_flush = nullptr;
    SetLibraryPath("");
    EXPECT_EQ(fake_->subscribers, 0);
    EXPECT_EQ(fake_->enabled, 0);
  }

  // Streams and memory of before are gone, as after a reset.
  static void StartDevices() {
    device::sim::Configuration configuration;
    configuration.devices = 2;
    ASSERT_TRUE(device::sim::Configure(configuration).ok());
    // The only work of the simulated device here is what the trace marks the time with.
    device::sim::ObserveActivity([](const device::sim::Activity& activity) {
      if (activity.kind == device::sim::Activity::Kind::kFill) {
        fake_->filled(static_cast<uint32_t>(activity.ordinal));
      }
    });
  }
  // Of kernels, and current on this thread.
  static void UseDevice(int ordinal) {
    ASSERT_TRUE(device::SetDevice(ordinal).ok());
    fake_->device = static_cast<uint32_t>(ordinal);
  }

  // A kernel launched on this thread inside `scope`, 0 for none; it is not done.
  size_t Launch(uint64_t scope, const char* name = "kernel") {
    if (scope != 0) trace_->PushScope(scope);
    const size_t kernel = fake_->queue(fake_->call(), name, 0);
    if (scope != 0) trace_->PopScope();
    return kernel;
  }

  ActivityTrace* trace_ = nullptr;
  static inline FakeCupti* fake_ = nullptr;
};

TEST_F(CuptiTest, WorkIsTheScopesInWhicheverOrderRecordsCome) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  trace_->PushScope(5);
  fake_->done(Launch(7, "inner"), 100, 250);
  fake_->done(Launch(0, "outer"), 300, 400);  // in the scope that is open still
  trace_->PopScope();
  fake_->done(Launch(0, "nobody's"), 500, 600);
  const size_t running = Launch(7, "running");
  ASSERT_TRUE(trace_->Flush(true).ok());
  ASSERT_EQ(told.OfScope(7).size(), 1u);
  const Activity inner = told.OfScope(7)[0];
  EXPECT_STREQ(inner.name, "inner");
  EXPECT_EQ(inner.begin_ns, 100u);
  EXPECT_EQ(inner.end_ns, 250u);
  EXPECT_EQ(inner.ordinal, 1);
  EXPECT_EQ(inner.stream, 13u);
  EXPECT_EQ(told.OfScope(5).size(), 1u);
  EXPECT_EQ(told.size(), 2u);
  EXPECT_EQ(trace_->Lost(), 0u);
  EXPECT_EQ(trace_->Now(), 1234u);
  EXPECT_FALSE(trace_->simulated());
  static_cast<void>(running);
  trace_->Stop();
}

TEST_F(CuptiTest, OnesOwnFlushLeavesWhatOthersStillRun) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  const size_t mine = Launch(1), others = Launch(2);
  fake_->done(mine, 10, 20);
  // In one buffer with mine: it is given out when the other is done too, which takes three flushes.
  fake_->at_flush = [&, count = 0]() mutable {
    if (++count == 3) fake_->done(others, 30, 40);
  };
  ASSERT_TRUE(trace_->Flush(false).ok());
  fake_->at_flush = nullptr;
  EXPECT_EQ(fake_->forced, 0);
  EXPECT_GE(fake_->flushes, 3);
  EXPECT_EQ(told.OfScope(1).size(), 1u);
  EXPECT_EQ(told.OfScope(2).size(), 1u);
  // Calls are remembered: work of an earlier one may come later.
  trace_->PushScope(3);
  const uint32_t call = fake_->call();
  trace_->PopScope();
  ASSERT_TRUE(trace_->Flush(false).ok());
  fake_->done(fake_->queue(call, "late", 0), 50, 60);
  ASSERT_TRUE(trace_->Flush(true).ok());
  EXPECT_EQ(told.OfScope(3).size(), 1u);
  trace_->Stop();
}

TEST_F(CuptiTest, ADeviceThatIsNeverIdleDoesNotKeepWorkBack) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  fake_->done(Launch(1), 10, 20);
  Launch(0);  // nobody's
  Launch(2);
  ASSERT_TRUE(trace_->Flush(false).ok());
  EXPECT_EQ(fake_->forced, 1);
  EXPECT_EQ(told.OfScope(1).size(), 1u);
  EXPECT_TRUE(told.OfScope(2).empty());
  EXPECT_EQ(trace_->Lost(), 1u);
  trace_->Stop();
}

TEST_F(CuptiTest, AFlushWaitsForTheCurrentDevice) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  for (const int ordinal : {0, 1, 0, 1}) {
    UseDevice(ordinal);
    const uint64_t scope = static_cast<uint64_t>(ordinal) + 1;
    const size_t before = told.OfScope(scope).size();
    fake_->done(Launch(scope), 10, 20);
    const size_t running = Launch(0);
    int left = 3;
    fake_->at_flush = [&] {
      if (--left == 0) fake_->done(running, 30, 40);
    };
    ASSERT_TRUE(trace_->Flush(false).ok());
    fake_->at_flush = nullptr;
    EXPECT_LE(left, 0);
    EXPECT_EQ(told.OfScope(scope).size(), before + 1);
  }
  EXPECT_EQ(fake_->forced, 0);
  EXPECT_EQ(trace_->Lost(), 0u);
  trace_->Stop();
}

TEST_F(CuptiTest, ADeviceThatWasResetIsMarkedAgain) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  fake_->done(Launch(1), 10, 20);
  ASSERT_TRUE(trace_->Flush(false).ok());
  StartDevices();
  UseDevice(1);
  fake_->done(Launch(1), 30, 40);
  ASSERT_TRUE(trace_->Flush(false).ok());
  EXPECT_EQ(fake_->forced, 0);
  EXPECT_EQ(told.OfScope(1).size(), 2u);
  trace_->Stop();
}

// 2^20 calls later for sure, 2^21 not any more.
TEST_F(CuptiTest, OldCallsAreForgotten) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  const auto call_in = [&](uint64_t scope) {
    trace_->PushScope(scope);
    const uint32_t call = fake_->call();
    trace_->PopScope();
    return call;
  };
  const uint32_t first = call_in(1);
  for (const size_t told_by_then : {1u, 1u}) {
    for (int i = 0; i < 1 << 20; ++i) {
      call_in(2);
      if (i % 2048 != 0) continue;
      ASSERT_TRUE(trace_->Flush(false).ok());
    }
    ASSERT_TRUE(trace_->Flush(false).ok());
    fake_->done(fake_->queue(first, "late", 0), 10, 20);
    ASSERT_TRUE(trace_->Flush(false).ok());
    EXPECT_EQ(told.OfScope(1).size(), told_by_then);
  }
  EXPECT_EQ(trace_->Lost(), 0u);
  trace_->Stop();
}

TEST_F(CuptiTest, NothingIsToldAfterStop) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  fake_->done(Launch(1), 10, 20);
  trace_->Stop();
  EXPECT_EQ(told.size(), 0u);
  Told next;
  ASSERT_TRUE(trace_->Start(&next).ok());
  ASSERT_TRUE(trace_->Flush(true).ok());
  EXPECT_EQ(next.size(), 0u);
  trace_->Stop();
}

TEST_F(CuptiTest, ThreadsHaveScopesOfTheirOwn) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  constexpr uint64_t kThreads = 4, kLaunches = 500;
  std::vector<std::thread> threads;
  for (uint64_t thread = 1; thread <= kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 0; i < kLaunches; ++i) {
        fake_->done(Launch(thread), thread, thread + 1);
        if (i % 100 == 99) fake_->next_buffer();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(trace_->Flush(true).ok());
  for (uint64_t thread = 1; thread <= kThreads; ++thread) {
    const auto found = told.OfScope(thread);
    EXPECT_EQ(found.size(), kLaunches);
    for (const Activity& activity : found) EXPECT_EQ(activity.begin_ns, thread);
  }
  trace_->Stop();
}

TEST_F(CuptiTest, WorkOfAGraphSharesItsCall) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  trace_->PushScope(9);
  const uint32_t call = fake_->call();
  trace_->PopScope();
  for (uint64_t node = 1; node <= 3; ++node) fake_->done(fake_->queue(call, "node", node), node * 10, node * 10 + 5);
  ASSERT_TRUE(trace_->Flush(true).ok());
  const auto found = told.OfScope(9);
  ASSERT_EQ(found.size(), 3u);
  for (const Activity& activity : found) {
    EXPECT_EQ(activity.call, call);
    EXPECT_EQ(activity.graph_node * 10, activity.begin_ns);
  }
  trace_->Stop();
}

TEST_F(CuptiTest, LostRecordsAreCounted) {
  Told told;
  ASSERT_TRUE(trace_->Start(&told).ok());
  fake_->dropped = 12;
  fake_->done(Launch(1), 10, 20);
  ASSERT_TRUE(trace_->Flush(true).ok());
  EXPECT_EQ(trace_->Lost(), 12u);
  trace_->Stop();
  ASSERT_TRUE(trace_->Start(&told).ok());
  EXPECT_EQ(trace_->Lost(), 0u);
  trace_->Stop();
}

TEST_F(CuptiTest, AnotherToolIsLeftAlone) {
  Told told;
  fake_->other_subscriber = true;
  const Status status = trace_->Start(&told);
  fake_->other_subscriber = false;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.ToString().find("another tool"), std::string::npos) << status.ToString();
}

TEST_F(CuptiTest, ARefusalSaysWhatToDo) {
  Told told;
  fake_->forbidden = true;
  const Status status = trace_->Start(&told);
  fake_->forbidden = false;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.ToString().find("NVreg_RestrictProfilingToAdminUsers=0"), std::string::npos) << status.ToString();
}

}  // namespace
}  // namespace cudaep::lib
