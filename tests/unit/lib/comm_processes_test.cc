// Collectives of the simulated device among processes.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "core/strings.h"
#include "rank_threads.h"

namespace cudaep::comm {
namespace {

using device::sim::Mode;

constexpr int kSize = 3;

// Runs `rank_of_child(rank)` for all ranks but 0 in processes of their own; a child that returns false fails the test.
class Children {
 public:
  template <class F>
  explicit Children(F&& rank_of_child) {
    for (int rank = 1; rank < kSize; ++rank) {
      const pid_t child = fork();
      if (child == 0) _exit(rank_of_child(rank) && !testing::Test::HasFailure() ? 0 : 1);
      children_.push_back(child);
    }
  }
  ~Children() {
    for (const pid_t child : children_) {
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE((WIFEXITED(status) && WEXITSTATUS(status) == 0) || WIFSIGNALED(status)) << status;
    }
  }

 private:
  std::vector<pid_t> children_;
};

bool AddAll(Rank& rank, int rounds) {
  const DeviceBytes memory(std::vector<uint8_t>(1, static_cast<uint8_t>(rank.comm->rank() + 1)));
  for (int i = 0; i < rounds; ++i) {
    const Status queued =
        rank.comm->AllReduce(memory.get(), memory.get(), 1, DataType::kUint8, Reduction::kSum, rank.stream.get());
    EXPECT_TRUE(queued.ok()) << queued.ToString();
  }
  uint8_t sum = 6;  // 1 + 2 + 3
  for (int i = 1; i < rounds; ++i) sum = static_cast<uint8_t>(sum * kSize);
  EXPECT_EQ(memory.Read(rank.stream.get())[0], sum);
  EXPECT_TRUE(rank.comm->Check().ok()) << rank.comm->Check().ToString();
  return !testing::Test::HasFailure();
}

TEST(CommProcesses, AddUp) {
  UseDevices(kSize, Mode::kLate);
  Result<UniqueId> id = MakeUniqueId();
  const Children children([&](int number) {
    Rank rank = JoinAs(*id, number, kSize, 20);
    return rank.comm != nullptr && AddAll(rank, 10);
  });
  Rank rank = JoinAs(*id, 0, kSize, 20);
  ASSERT_NE(rank.comm, nullptr);
  EXPECT_TRUE(AddAll(rank, 10));
}

TEST(CommProcesses, OneThatIsKilledIsNamed) {
  UseDevices(kSize, Mode::kLate);
  Result<UniqueId> id = MakeUniqueId();
  const Children children([&](int number) {
    Rank rank = JoinAs(*id, number, kSize, 20);
    if (rank.comm == nullptr || !AddAll(rank, 1)) return false;
    if (number == 2) kill(getpid(), SIGKILL);
    const DeviceBytes memory(std::vector<uint8_t>{0, 0, 0});
    EXPECT_TRUE(rank.comm->AllGather(memory.get(), memory.get(), 1, rank.stream.get()).ok());
    EXPECT_TRUE(device::StreamSynchronize(rank.stream.get()).ok());
    return rank.comm->Check().message().find("rank 2 has ended") != std::string::npos;
  });
  Rank rank = JoinAs(*id, 0, kSize, 20);
  ASSERT_NE(rank.comm, nullptr);
  EXPECT_TRUE(AddAll(rank, 1));
  const DeviceBytes memory(std::vector<uint8_t>{0, 0, 0});
  EXPECT_TRUE(rank.comm->AllGather(memory.get(), memory.get(), 1, rank.stream.get()).ok());
  EXPECT_TRUE(device::StreamSynchronize(rank.stream.get()).ok());
  EXPECT_NE(rank.comm->Check().message().find("has ended"), std::string::npos) << rank.comm->Check().ToString();
}

// Whoever waited for it leaves nothing behind, of its own or of the killed one.
TEST(CommProcesses, OneThatIsKilledWhileJoiningLeavesNoMemory) {
  UseDevices(kSize, Mode::kLate);
  Result<UniqueId> id = MakeUniqueId();
  const std::string file = StrCat("/dev/shm", reinterpret_cast<const char*>(id->data()));
  const pid_t child = fork();
  if (child == 0) _exit(Join(*id, 2, kSize, std::chrono::seconds(60)).ok() ? 0 : 1);
  while (access(StrCat(file, ".2").c_str(), F_OK) != 0) usleep(1000);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(Join(*id, 1, kSize, std::chrono::seconds(1)).ok());
  for (const char* part : {"", ".0", ".1", ".2"}) EXPECT_NE(access(StrCat(file, part).c_str(), F_OK), 0) << part;
}

}  // namespace
}  // namespace cudaep::comm
