#include "lib/library_path.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cudaep::lib {
namespace {

using Folders = std::vector<std::string>;

TEST(LibraryPath, OptionComesBeforeEnvironmentAndEmptyEntriesVanish) {
  ASSERT_EQ(setenv(kLibraryPathVariable, ":/env/a::/env/b:", 1), 0);
  SetLibraryPath("/option");
  EXPECT_EQ(LibraryPath(), (Folders{"/option", "/env/a", "/env/b"}));
  SetLibraryPath("");
  EXPECT_EQ(LibraryPath(), (Folders{"/env/a", "/env/b"}));
  ASSERT_EQ(unsetenv(kLibraryPathVariable), 0);
  EXPECT_TRUE(LibraryPath().empty());
}

}  // namespace
}  // namespace cudaep::lib
