// Ranges reach a tool that listens, and nobody where there is none. NVTX asks for a tool once a process.
#include "lib/ranges.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace cudaep::lib {
namespace {

constexpr const char* kVariable = "NVTX_INJECTION64_PATH";

TEST(RangesDeathTest, NobodyIsHeardWithoutATool) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        unsetenv(kVariable);
        std::exit(RangesAreHeard() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(RangesTest, AToolHearsThem) {
  setenv(kVariable, CUDAEP_TEST_NVTX_TOOL, 1);
  ASSERT_TRUE(RangesAreHeard());
  void* const tool = dlopen(CUDAEP_TEST_NVTX_TOOL, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(tool, nullptr);
  const auto domain = reinterpret_cast<const char* (*)()>(dlsym(tool, "FakeDomain"));
  const auto range = reinterpret_cast<const char* (*)(size_t)>(dlsym(tool, "FakeRange"));
  const auto open = reinterpret_cast<int (*)()>(dlsym(tool, "FakeOpen"));
  EXPECT_STREQ(domain(), "ort-cuda-ep");
  BeginRange("Add node 'a'");
  BeginRange("inner");
  EXPECT_EQ(open(), 2);
  EndRange();
  EndRange();
  EXPECT_EQ(open(), 0);
  EXPECT_STREQ(range(0), "Add node 'a'");
  EXPECT_STREQ(range(1), "inner");
}

}  // namespace
}  // namespace cudaep::lib
