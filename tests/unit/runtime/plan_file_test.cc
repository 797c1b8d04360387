// What a path of plans may lead to.
#include "runtime/plan_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "core/log.h"
#include "core/strings.h"

namespace cudaep {
namespace {

class PlanFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / StrCat("plan_file_", static_cast<int64_t>(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string At(const char* name) const { return (folder_ / name).string(); }

  // Nothing is found there, and what is put is refused by name.
  static void ExpectRefused(const std::string& path) {
    PlanFile file(path);
    EXPECT_EQ(file.Find("key"), "");
    file.Put("key", "text");
    const Status status = file.Save();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("is no regular file"), std::string_view::npos) << status.message();
  }

  std::filesystem::path folder_;
};

TEST_F(PlanFileTest, FoldersAndPipesAreNeitherReadNorReplaced) {
  ExpectRefused(folder_.string());
  EXPECT_TRUE(std::filesystem::is_directory(folder_));
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0600), 0);
  ExpectRefused(At("pipe"));
  EXPECT_TRUE(std::filesystem::is_fifo(At("pipe")));
}

TEST_F(PlanFileTest, ALinkIsFollowed) {
  std::filesystem::create_directories(folder_ / "far");
  std::ofstream(At("far/plans")) << "";
  std::filesystem::create_symlink(folder_ / "far" / "plans", At("link"));
  PlanFile file(At("link"));
  file.Put("key", "text");
  ASSERT_TRUE(file.Save().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(At("link")));
  EXPECT_EQ(PlanFile(At("far/plans")).Find("key"), "text");
}

TEST_F(PlanFileTest, AFileBeyondTheLimitIsDamaged) {
  std::ofstream(At("plans")) << "ort-cuda-ep plans 2\n";
  std::filesystem::resize_file(At("plans"), PlanFile::kMostBytes + 1);  // of holes
  PlanFile file(At("plans"));
  EXPECT_EQ(file.Find("key"), "");
  file.Put("key", "text");
  ASSERT_TRUE(file.Save().ok());
  EXPECT_LT(std::filesystem::file_size(At("plans")), 1000u);
}

TEST_F(PlanFileTest, WhatAKilledProcessLeftIsRemovedByTheNextThatWrites) {
  for (const char* name : {"plans.123.0.new", "plans.99999.17.new", "plans.old", "plans.mine.new", "others.1.0.new"}) {
    std::ofstream(At(name)) << "half of a fi";
  }
  PlanFile file(At("plans"));
  file.Put("key", "text");
  ASSERT_TRUE(file.Save().ok());
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"plans", "plans.lock", "plans.mine.new", "plans.old", "others.1.0.new"}));
}

TEST_F(PlanFileTest, AFileOfAnotherFormatIsSaidToBeThatAndReplaced) {
  std::vector<std::string> lines;
  const LogSink sink(
      [](void* to, LogLevel, std::string_view line) { static_cast<std::vector<std::string>*>(to)->emplace_back(line); },
      &lines);
  std::ofstream(At("plans")) << "ort-cuda-ep plans 1\n{\"key\": \"text\"}";
  PlanFile file(At("plans"));
  EXPECT_EQ(file.Find("key"), "");
  file.Put("key", "new");
  ASSERT_TRUE(file.Save().ok());
  EXPECT_EQ(PlanFile(At("plans")).Find("key"), "new");
  EXPECT_EQ(lines, std::vector{StrCat("plan file ", At("plans"),
                                      " is of another version of the library; it is not used and written anew")});
}

}  // namespace
}  // namespace cudaep
