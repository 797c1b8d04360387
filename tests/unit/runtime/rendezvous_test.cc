// Ranks meet through files, whatever lies there already.
#include "runtime/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "core/strings.h"
#include "runtime/rendezvous_note.h"

namespace cudaep {
namespace {

class RendezvousTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / StrCat("cudaep_rendezvous_", int64_t{getpid()});
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file() const { return folder_ / "group"; }
  std::string file(int rank) const { return StrCat(file(), '.', rank); }
  size_t files_left() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  using Met = Result<comm::UniqueId>;
  Met MeetAs(int rank, int size, int timeout_s = 20, const char* backend = "test", int first = 0) const {
    const GroupSettings group{.size = size, .rank = rank, .file = file(), .timeout_s = timeout_s};
    return Meet(group, backend, [first]() -> Met {
      comm::UniqueId id{};
      for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(i + static_cast<size_t>(first));
      return id;
    });
  }

  std::vector<Met> MeetTogether(int size, int first = 0) const {
    std::vector<Met> met(static_cast<size_t>(size), Met(Internal("not yet")));
    std::vector<std::thread> ranks;
    for (int rank = size; rank-- > 0;) {
      ranks.emplace_back([&, rank] { met[static_cast<size_t>(rank)] = MeetAs(rank, size, 20, "test", first); });
    }
    for (std::thread& rank : ranks) rank.join();
    return met;
  }

  static void ExpectSame(const std::vector<Met>& met, int first) {
    for (const Met& each : met) {
      ASSERT_TRUE(each.ok()) << each.status().ToString();
      EXPECT_EQ(each.value()[0], static_cast<std::byte>(first));
      EXPECT_EQ(each.value()[127], static_cast<std::byte>(127 + first));
    }
  }

  std::filesystem::path folder_;
};

TEST_F(RendezvousTest, AllGetTheIdAndNoFileStays) {
  ExpectSame(MeetTogether(4), 0);
  EXPECT_EQ(files_left(), 0u);
}

// As the sessions of one process are made one after the other, without waiting for the other processes between.
TEST_F(RendezvousTest, OneFileServesGroupAfterGroup) {
  constexpr int kSize = 3, kRounds = 20;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int round = 0; round < kRounds; ++round) {
        const Met met = MeetAs(rank, kSize, 20, "test", round);
        ASSERT_TRUE(met.ok()) << met.status().ToString();
        EXPECT_EQ(met.value()[0], static_cast<std::byte>(round)) << rank;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(files_left(), 0u);
}

TEST_F(RendezvousTest, WhatACrashedGroupLeftIsNotTaken) {
  RendezvousNote stale{.nonce = "1111", .group = "3 ranks, test", .answers = {{1, "2222"}, {2, "3333"}}, .id = "00"};
  ASSERT_TRUE(WriteNote(file(), stale).ok());
  for (int rank : {1, 2}) {
    ASSERT_TRUE(WriteNote(file(rank), {.nonce = rank == 1 ? "2222" : "3333", .answers = {{0, "1111"}}}).ok());
  }
  ExpectSame(MeetTogether(3, 9), 9);
  EXPECT_EQ(files_left(), 0u);
}

TEST_F(RendezvousTest, MissingRanksAreNamed) {
  const Met alone = MeetAs(0, 3, 1);
  EXPECT_NE(alone.status().message().find("after 1 s (collective_timeout_s) there is no rank 1, 2"), std::string::npos)
      << alone.status().ToString();
  EXPECT_NE(alone.status().message().find(file()), std::string::npos);
  const Met no_leader = MeetAs(2, 3, 1);
  EXPECT_NE(no_leader.status().message().find("there is no rank 0"), std::string::npos)
      << no_leader.status().ToString();
  EXPECT_NE(no_leader.status().message().find("rank 2 of 3"), std::string::npos);
}

// The one that is there hears of it too.
TEST_F(RendezvousTest, WhoWaitsForAMissingRankHearsWhichOne) {
  Met leader = Internal("not yet"), member = Internal("not yet");
  std::thread first([&] { leader = MeetAs(0, 3, 1); });
  std::thread second([&] { member = MeetAs(1, 3, 5); });
  first.join();
  second.join();
  for (const Met& met : {leader, member}) {
    EXPECT_NE(met.status().message().find("there is no rank 2"), std::string::npos) << met.status().ToString();
  }
}

TEST_F(RendezvousTest, DifferentGroupsAreNamed) {
  Met leader = Internal("not yet"), member = Internal("not yet");
  std::thread first([&] { leader = MeetAs(0, 2, 5, "cuda"); });
  std::thread second([&] { member = MeetAs(1, 3, 5, "simulated"); });
  first.join();
  second.join();
  for (const Met& met : {leader, member}) {
    EXPECT_NE(met.status().message().find("rank 0 has a group of 2 ranks, cuda, this one is of 3 ranks, simulated"),
              std::string::npos)
        << met.status().ToString();
  }
}

TEST_F(RendezvousTest, ARankThatExistsTwiceIsNamed) {
  std::vector<Met> met(2, Met(Internal("not yet")));
  std::vector<std::thread> ranks;
  for (Met& each : met) ranks.emplace_back([&] { each = MeetAs(1, 2, 2); });
  for (std::thread& rank : ranks) rank.join();
  const auto says = [](const Met& each) { return each.status().message().find("as rank 1 too") != std::string::npos; };
  EXPECT_TRUE(says(met[0]) || says(met[1])) << met[0].status().ToString() << met[1].status().ToString();
}

// Opening a pipe waits for whoever writes into it.
TEST_F(RendezvousTest, PipesDevicesAndFoldersAreNoNotes) {
  ASSERT_EQ(mkfifo(file(1).c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", file(2));
  std::filesystem::create_directory(file(3));
  const Met met = MeetAs(0, 4, 1);
  EXPECT_NE(met.status().message().find("there is no rank 1, 2, 3"), std::string::npos) << met.status().ToString();
}

TEST_F(RendezvousTest, NothingIsWrittenThroughALink) {
  const std::string kept = folder_ / "kept";
  std::ofstream(kept) << "text";
  std::filesystem::create_symlink(kept, StrCat(file(), ".1234.new"));
  EXPECT_EQ(WriteNote(file(), {.nonce = "1234"}).code(), StatusCode::kDeviceError);
  EXPECT_EQ(std::filesystem::file_size(kept), 4u);
}

TEST_F(RendezvousTest, AFolderThatCannotBeWrittenIsNamed) {
  const GroupSettings group{.size = 2, .rank = 1, .file = "/nowhere/at/all", .timeout_s = 1};
  const Met met = Meet(group, "test", [] { return Met(comm::UniqueId{}); });
  EXPECT_EQ(met.status().code(), StatusCode::kDeviceError) << met.status().ToString();
  EXPECT_NE(met.status().message().find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace cudaep
