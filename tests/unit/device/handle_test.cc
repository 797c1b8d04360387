// UniqueHandle's moves, once for all handle types.
#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

int released = 0;
struct CountingTraits {
  using Type = int;
  static int Null() { return 0; }
  static void Release(int) { ++released; }
};
using Counted = UniqueHandle<CountingTraits>;

TEST(UniqueHandleTest, ReleasesExactlyOnce) {
  released = 0;
  {
    Counted a(1);
    Counted b(std::move(a));
    EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): the moved-from state is the subject
    EXPECT_EQ(b.get(), 1);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(UniqueHandleTest, MoveAssignmentReleasesWhatWasHeld) {
  released = 0;
  Counted a(1), b(2);
  a = std::move(b);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(a.get(), 2);
  Counted& same = a;
  a = std::move(same);
  EXPECT_EQ(a.get(), 2);
  EXPECT_EQ(released, 1);
  *a.Receive() = 3;
  EXPECT_EQ(released, 2);
  EXPECT_EQ(a.Detach(), 3);
  EXPECT_EQ(released, 2);
}

using OwnerTest = DeviceTest;

TEST_F(OwnerTest, EveryOwnerGivesItsHandleBack) {
  {
    UniqueDeviceMemory memory;
    UniquePinnedMemory pinned;
    UniqueEvent event;
    ASSERT_OK(Malloc(memory.Receive(), 64));
    ASSERT_OK(HostMalloc(pinned.Receive(), 64));
    ASSERT_OK(EventCreate(event.Receive(), EventKind::kOrderOnly));
    EXPECT_EQ(sim::LiveAllocations(0), 1u);
    UniqueDeviceMemory other = std::move(memory);
    EXPECT_EQ(sim::LiveAllocations(0), 1u);
  }
  EXPECT_EQ(sim::LiveAllocations(0), 0u);
  EXPECT_EQ(sim::Snapshot().host_frees, 1u);
}

TEST_F(OwnerTest, DeviceGuardRestoresTheCallersDevice) {
  sim::Configuration configuration;
  configuration.devices = 2;
  Start(configuration);
  int current = -1;
  {
    DeviceGuard guard(1);
    EXPECT_OK(guard.status());
    ASSERT_OK(GetDevice(&current));
    EXPECT_EQ(current, 1);
  }
  ASSERT_OK(GetDevice(&current));
  EXPECT_EQ(current, 0);
  EXPECT_FALSE(DeviceGuard(7).status().ok());
}

}  // namespace
}  // namespace cudaep::device::testing
