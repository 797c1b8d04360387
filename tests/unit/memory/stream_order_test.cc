#include "memory/stream_order.h"

#include "../device/device_fixture.h"

namespace cudaep::memory {
namespace {

namespace sim = device::sim;

class StreamOrderTest : public device::testing::DeviceTest {
 protected:
  void TearDown() override {
    order_.emplace();
    DeviceTest::TearDown();
  }
  void Work(int on) {
    if (memory_ == nullptr) memory_ = Allocate<char>(3 * 64);
    EXPECT_OK(device::MemsetAsync(memory_ + 64 * on, 1, 64, stream(on)));
  }

  // A point now, for which an event is recorded.
  StreamOrder::Point Mark(int on) {
    const StreamOrder::Point point = order_->Next(order_->Add(stream(on)));
    order_->Settle(point);
    return point;
  }
  void Reach(int on) { order_->Reached(order_->Mark(stream(on))); }

  char* memory_ = nullptr;
  std::optional<StreamOrder> order_{std::in_place};
};

TEST_F(StreamOrderTest, AMarkIsPastWhenTheWorkBeforeItIs) {
  Work(0);
  const auto point = Mark(0);
  EXPECT_FALSE(order_->IsPast(point));
  order_->Poll();
  EXPECT_FALSE(order_->IsPast(point));
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  Work(0);  // later work does not matter
  EXPECT_FALSE(order_->IsPast(point));
  order_->Poll();
  EXPECT_TRUE(order_->IsPast(point));
}

TEST_F(StreamOrderTest, AllMarksOfAllStreamsAreNeeded) {
  for (int i = 0; i < 3; ++i) {
    order_->Add(stream(i));
    Work(i);
  }
  const auto points = order_->NextOfAll();
  order_->Settle(points);
  EXPECT_EQ(points.size(), 3u);
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  ASSERT_OK(device::StreamSynchronize(stream(2)));
  order_->Poll();
  EXPECT_FALSE(order_->IsPast(points));
  Reach(1);
  EXPECT_TRUE(order_->IsPast(points));
  EXPECT_TRUE(order_->IsPast(std::vector<StreamOrder::Point>()));
}

TEST_F(StreamOrderTest, AReleasedStreamIsForgottenAndItsHandleMayReturn) {
  Work(0);
  const auto point = Mark(0);
  order_->Release(stream(0));
  EXPECT_TRUE(order_->IsPast(point));
  EXPECT_EQ(order_->Find(stream(0)), StreamOrder::kNobody);
  const auto next = Mark(0);  // as a new stream with the same handle
  EXPECT_TRUE(order_->IsPast(point));
  EXPECT_FALSE(order_->IsPast(next));
}

TEST_F(StreamOrderTest, NothingIsRecordedDuringACapture) {
  ASSERT_OK(device::StreamBeginCapture(stream(0), device::CaptureMode::kThreadLocal));
  EXPECT_TRUE(IsCapturing(stream(0)));
  EXPECT_FALSE(IsCapturing(nullptr));
  const auto during = Mark(0);
  EXPECT_TRUE(order_->Pending().empty());
  order_->Poll();
  EXPECT_FALSE(order_->IsPast(during));
  device::Graph graph = nullptr;
  ASSERT_OK(device::StreamEndCapture(stream(0), &graph));
  device::UniqueGraph owner(graph);
  EXPECT_FALSE(IsCapturing(stream(0)));
  Work(0);
  order_->Poll();
  const auto events = order_->Pending();
  ASSERT_EQ(events.size(), 1u);
  ASSERT_OK(StreamOrder::Wait(events));
  order_->Poll();
  EXPECT_TRUE(order_->IsPast(during));
}

TEST_F(StreamOrderTest, ARefusedRecordIsMadeUpFor) {
  Work(0);
  sim::FailCall(sim::CallKind::kEventRecord, 1, Status(StatusCode::kDeviceError, "planned"));
  const auto point = Mark(0);
  order_->Poll();
  EXPECT_FALSE(order_->IsPast(point));
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  order_->Poll();
  EXPECT_TRUE(order_->IsPast(point));
}

TEST_F(StreamOrderTest, OnALostDeviceNothingIsWaitedFor) {
  Work(0);
  const auto point = Mark(0);
  sim::LoseDevice(0, "gone");
  order_->Poll();
  EXPECT_TRUE(order_->IsPast(point));
}

// An event that one thread waits for is not recorded again by another.
TEST_F(StreamOrderTest, AWaitIsForTheWorkOfItsTime) {
  Work(0);
  Mark(0);
  const auto events = order_->Pending();
  ASSERT_EQ(events.size(), 1u);
  Reach(0);
  Work(1);
  Mark(1);
  ASSERT_OK(StreamOrder::Wait(events));
  EXPECT_EQ(device::StreamQuery(stream(1)).code(), StatusCode::kNotReady);
}

TEST_F(StreamOrderTest, EventsAreReused) {
  for (int i = 0; i < 20; ++i) {
    if (i == 1) sim::FailCall(sim::CallKind::kEventCreate, 1, Status(StatusCode::kDeviceError, "created one more"));
    const auto point = Mark(0);
    ASSERT_OK(device::StreamSynchronize(stream(0)));
    order_->Poll();
    EXPECT_TRUE(order_->IsPast(point));
    EXPECT_TRUE(order_->Pending().empty());
  }
  device::UniqueEvent event;
  EXPECT_FAILS(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly), kDeviceError, "one more");
}

TEST_F(StreamOrderTest, OrderMakesTheLaterStreamWait) {
  char* shared = Allocate<char>(64);
  const auto user = order_->Add(stream(1)), owner = order_->Add(stream(0));
  ASSERT_OK(device::MemsetAsync(shared, 1, 64, stream(0)));
  const auto before = order_->Next(owner);
  EXPECT_LT(order_->Usable(user, owner), before.sequence);
  ASSERT_TRUE(order_->Order(user, owner));
  const auto after = order_->Next(owner);
  EXPECT_EQ(order_->Usable(user, owner), before.sequence);
  EXPECT_LT(order_->Usable(user, owner), after.sequence);
  EXPECT_EQ(order_->Usable(owner, owner), UINT64_MAX);
  ASSERT_OK(device::MemsetAsync(shared, 2, 64, stream(1)));
  EXPECT_EQ(Download(shared, 1, stream(1))[0], 2);
}

// One event answers for all points before it, and none is recorded twice.
TEST_F(StreamOrderTest, PointsShareAnEventAndCostNothingBeforeIt) {
  const auto slot = order_->Add(stream(0));
  const auto before = sim::Snapshot();
  std::vector<StreamOrder::Point> points;
  for (int i = 0; i < 10; ++i) points.push_back(order_->Next(slot));
  EXPECT_EQ((sim::Snapshot() - before).event_records, 0u);
  order_->Settle(points);
  order_->SettleAll();
  EXPECT_EQ((sim::Snapshot() - before).event_records, 1u);
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  order_->Poll();
  EXPECT_TRUE(order_->IsPast(points));
}

// What was waited for in one life of a slot is no answer for the next.
TEST_F(StreamOrderTest, ALifeEndsWithItsStream) {
  const auto slot = order_->Add(stream(0));
  const StreamMark mark = order_->Mark(stream(0));
  order_->Release(stream(0));
  EXPECT_EQ(order_->Reached(mark), StreamOrder::kNobody);
  EXPECT_EQ(order_->Add(stream(1)), slot);  // vacant slots are used again
  EXPECT_NE(order_->life(slot), mark.life);
  order_->Add(stream(0));
  EXPECT_EQ(order_->Reached(mark), StreamOrder::kNobody);
}

}  // namespace
}  // namespace cudaep::memory
