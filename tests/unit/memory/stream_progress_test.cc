#include "memory/stream_progress.h"

#include "../device/device_fixture.h"

namespace cudaep::memory {
namespace {

namespace sim = device::sim;

class StreamProgressTest : public device::testing::DeviceTest {
 protected:
  void TearDown() override {
    progress_.emplace();
    DeviceTest::TearDown();
  }
  void Work(int on) {
    if (memory_ == nullptr) memory_ = Allocate<char>(3 * 64);
    EXPECT_OK(device::MemsetAsync(memory_ + 64 * on, 1, 64, stream(on)));
  }

  char* memory_ = nullptr;
  std::optional<StreamProgress> progress_{std::in_place};
};

TEST_F(StreamProgressTest, AMarkIsPastWhenTheWorkBeforeItIs) {
  Work(0);
  const auto point = progress_->Mark(stream(0));
  EXPECT_FALSE(progress_->IsPast(point));
  progress_->Poll();
  EXPECT_FALSE(progress_->IsPast(point));
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  Work(0);  // later work does not matter
  EXPECT_FALSE(progress_->IsPast(point));
  progress_->Poll();
  EXPECT_TRUE(progress_->IsPast(point));
}

TEST_F(StreamProgressTest, AllMarksOfAllStreamsAreNeeded) {
  for (int i = 0; i < 3; ++i) {
    progress_->Add(stream(i));
    Work(i);
  }
  const auto points = progress_->MarkAll();
  EXPECT_EQ(points.size(), 3u);
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  ASSERT_OK(device::StreamSynchronize(stream(2)));
  progress_->Poll();
  EXPECT_FALSE(progress_->IsPast(points));
  progress_->Reached(progress_->Now(stream(1)));
  EXPECT_TRUE(progress_->IsPast(points));
  EXPECT_TRUE(progress_->IsPast(std::vector<StreamProgress::Point>()));
}

TEST_F(StreamProgressTest, AReleasedStreamIsForgottenAndItsHandleMayReturn) {
  Work(0);
  const auto point = progress_->Mark(stream(0));
  progress_->Release(stream(0));
  EXPECT_TRUE(progress_->IsPast(point));
  EXPECT_FALSE(progress_->Knows(stream(0)));
  const auto next = progress_->Mark(stream(0));  // as a new stream with the same handle
  EXPECT_TRUE(progress_->IsPast(point));
  EXPECT_FALSE(progress_->IsPast(next));
}

TEST_F(StreamProgressTest, NothingIsRecordedDuringACapture) {
  ASSERT_OK(device::StreamBeginCapture(stream(0), device::CaptureMode::kThreadLocal));
  EXPECT_TRUE(IsCapturing(stream(0)));
  EXPECT_FALSE(IsCapturing(nullptr));
  const auto during = progress_->Mark(stream(0));
  EXPECT_TRUE(progress_->Pending().empty());
  progress_->Poll();
  EXPECT_FALSE(progress_->IsPast(during));
  device::Graph graph = nullptr;
  ASSERT_OK(device::StreamEndCapture(stream(0), &graph));
  device::UniqueGraph owner(graph);
  EXPECT_FALSE(IsCapturing(stream(0)));
  Work(0);
  const auto events = progress_->Pending();
  ASSERT_EQ(events.size(), 1u);
  ASSERT_OK(StreamProgress::Wait(events));
  progress_->Poll();
  EXPECT_TRUE(progress_->IsPast(during));
}

TEST_F(StreamProgressTest, ARefusedRecordIsMadeUpFor) {
  Work(0);
  sim::FailCall(sim::CallKind::kEventRecord, 1, Status(StatusCode::kDeviceError, "planned"));
  const auto point = progress_->Mark(stream(0));
  progress_->Poll();
  EXPECT_FALSE(progress_->IsPast(point));
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  progress_->Poll();
  EXPECT_TRUE(progress_->IsPast(point));
}

TEST_F(StreamProgressTest, OnALostDeviceNothingIsWaitedFor) {
  Work(0);
  const auto point = progress_->Mark(stream(0));
  sim::LoseDevice(0, "gone");
  progress_->Poll();
  EXPECT_TRUE(progress_->IsPast(point));
}

// An event that one thread waits for is not recorded again by another.
TEST_F(StreamProgressTest, AWaitIsForTheWorkOfItsTime) {
  Work(0);
  progress_->Mark(stream(0));
  const auto events = progress_->Pending();
  ASSERT_EQ(events.size(), 1u);
  progress_->Reached(progress_->Now(stream(0)));
  Work(1);
  progress_->Mark(stream(1));
  ASSERT_OK(StreamProgress::Wait(events));
  EXPECT_EQ(device::StreamQuery(stream(1)).code(), StatusCode::kNotReady);
}

TEST_F(StreamProgressTest, EventsAreReused) {
  for (int i = 0; i < 20; ++i) {
    if (i == 1) sim::FailCall(sim::CallKind::kEventCreate, 1, Status(StatusCode::kDeviceError, "created one more"));
    const auto point = progress_->Mark(stream(0));
    ASSERT_OK(device::StreamSynchronize(stream(0)));
    progress_->Poll();
    EXPECT_TRUE(progress_->IsPast(point));
    EXPECT_TRUE(progress_->Pending().empty());
  }
  device::UniqueEvent event;
  EXPECT_FAILS(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly), kDeviceError, "one more");
}

TEST_F(StreamProgressTest, OrderMakesTheLaterStreamWait) {
  char* shared = Allocate<char>(64);
  ASSERT_OK(device::MemsetAsync(shared, 1, 64, stream(0)));
  ASSERT_OK(StreamProgress::Order(stream(1), stream(0)));
  ASSERT_OK(device::MemsetAsync(shared, 2, 64, stream(1)));
  EXPECT_EQ(Download(shared, 1, stream(1))[0], 2);
}

}  // namespace
}  // namespace cudaep::memory
