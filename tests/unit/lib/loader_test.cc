// The search for vendor libraries, with small libraries of our own in their place.
#include "lib/loader.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/library_path.h"
#include "lib/report.h"

namespace cudaep::lib {
namespace {

constexpr std::string_view kFolders[] = {"nvidia/fake/lib"};

LibrarySpec Spec(const char* soname) {
  return {"FakeDNN", soname, "fakeGetVersion", 90000, kFolders, "pip install nvidia-fake"};
}

class LoaderTest : public ::testing::Test {
 protected:
  void TearDown() override { SetLibraryPath(""); }
};

void ExpectContains(std::string_view text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string_view::npos) << "'" << part << "' is missing in: " << text;
}

TEST_F(LoaderTest, MissingLibraryNamesFileVersionPlacesAndRemedy) {
  SetLibraryPath("/nowhere/first:/nowhere/second");
  const auto loaded = LoadLibrary(Spec("libcudaepabsent.so.9"));
  ASSERT_EQ(loaded.status().code(), StatusCode::kLibraryMissing);
  const std::string_view text = loaded.status().message();
  for (std::string_view part : {"libcudaepabsent.so.9", "FakeDNN 9.0.0 or newer", "the process itself",
                                "/nowhere/first", "/nowhere/second", "nvidia/fake/lib", "LD_LIBRARY_PATH",
                                "/usr/local/cuda/lib64", "pip install nvidia-fake", kLibraryPathVariable}) {
    ExpectContains(text, part);
  }
}

TEST_F(LoaderTest, TooOldLibraryIsRefusedWithBothVersions) {
  SetLibraryPath(CUDAEP_TEST_OLD_VENDOR_DIR);
  const auto loaded = LoadLibrary(Spec("libcudaepfake_old.so.9"));
  ASSERT_EQ(loaded.status().code(), StatusCode::kLibraryMissing);
  ExpectContains(loaded.status().message(), "version 8.9.7, which is too old");
  ExpectContains(loaded.status().message(), "FakeDNN 9.0.0 or newer");
}

TEST_F(LoaderTest, FindsTheLibraryInTheOptionsFolder) {
  SetLibraryPath("/nowhere:" CUDAEP_TEST_NEW_VENDOR_DIR);
  auto loaded = LoadLibrary(Spec("libcudaepfake_new.so.9"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->version, 91900u);
  EXPECT_EQ(loaded->path, CUDAEP_TEST_NEW_VENDOR_DIR "/libcudaepfake_new.so.9");
  ExpectContains(loaded->place, "library path option");

  int (*answer)() = nullptr;
  ASSERT_TRUE(BindSymbol(*loaded, "fakeAnswer", reinterpret_cast<void**>(&answer)).ok());
  EXPECT_EQ(answer(), 42);
  const Status missing = BindSymbol(*loaded, "fakeQuestion", reinterpret_cast<void**>(&answer));
  EXPECT_EQ(missing.code(), StatusCode::kLibraryMissing);
  ExpectContains(missing.message(), "fakeQuestion");
  ExpectContains(missing.message(), "9.19.0");
}

TEST_F(LoaderTest, LibraryWithoutItsVersionFunctionIsRefused) {
  SetLibraryPath(CUDAEP_TEST_NEW_VENDOR_DIR);
  LibrarySpec spec = Spec("libcudaepfake_new.so.9");
  spec.version_symbol = "fakeGetRevision";
  const auto loaded = LoadLibrary(spec);
  ASSERT_EQ(loaded.status().code(), StatusCode::kLibraryMissing);
  ExpectContains(loaded.status().message(), "does not export fakeGetRevision");
}

// libc is in every process, so that it stands for a vendor library that another package has loaded.
TEST_F(LoaderTest, LoadedCopyWinsAndGivesNoSecondChance) {
  LibrarySpec spec = Spec("libc.so.6");
  spec.version_symbol = "getpid";  // any function that returns an integer
  spec.minimum_version = 0;
  auto loaded = LoadLibrary(spec);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->place, "already loaded by the process");

  spec.version_symbol = "fakeGetVersion";
  const auto refused = LoadLibrary(spec);
  ASSERT_EQ(refused.status().code(), StatusCode::kLibraryMissing);
  ExpectContains(refused.status().message(), "already loaded another copy");
}

struct FakeApi {
  int answer = 0;
};
int load_calls = 0;
Status FailOnce(FakeApi* api) {
  if (++load_calls == 1) return Status(StatusCode::kLibraryMissing, "not yet");
  api->answer = 42;
  return Status::Ok();
}

TEST(LazyApi, RemembersSuccessButNotFailure) {
  static LazyApi<FakeApi> lazy{FailOnce};
  EXPECT_EQ(lazy.Get().status().code(), StatusCode::kLibraryMissing);
  EXPECT_EQ(lazy.loaded(), nullptr);
  auto first = lazy.Get();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->answer, 42);
  EXPECT_EQ(lazy.Get().value(), *first);
  EXPECT_EQ(load_calls, 2);
}

TEST(Report, HasAnEntryForEachLibrary) {
  const auto reports = ReportLibraries();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].name, "cuBLASLt");
  EXPECT_EQ(reports[1].name, "cuDNN");
  for (const LibraryReport& report : reports) {
    EXPECT_FALSE(report.status.empty());
    EXPECT_EQ(report.found, !report.version.empty()) << report.status;
  }
}

}  // namespace
}  // namespace cudaep::lib
