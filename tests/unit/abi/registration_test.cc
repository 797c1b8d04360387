// Registration with hosts that are too old, too new, incomplete or second, and statistics: through the library's three
// exported functions.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "abi/api_version.h"
#include "failing_memory.h"
#include "fake_host.h"

namespace cudaep::abi {
namespace {

struct Library {
  CreateEpApiFactoriesFn create = nullptr;
  ReleaseEpApiFactoryFn release = nullptr;
  size_t (*statistics)(char*, size_t) = nullptr;
};

const Library& ThePlugin() {
  static const Library library = [] {
    // The build's own, or the one of $CUDAEP_TEST_LIB_DIR where the tests run elsewhere.
    const std::string built = CUDAEP_TEST_PLUGIN;
    const char* const folder = std::getenv("CUDAEP_TEST_LIB_DIR");
    const std::string path = folder == nullptr ? built : folder + built.substr(built.rfind('/'));
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) ADD_FAILURE() << dlerror();
    return handle == nullptr
               ? Library{}
               : Library{reinterpret_cast<CreateEpApiFactoriesFn>(dlsym(handle, "CreateEpFactories")),
                         reinterpret_cast<ReleaseEpApiFactoryFn>(dlsym(handle, "ReleaseEpFactory")),
                         reinterpret_cast<size_t (*)(char*, size_t)>(dlsym(handle, "OrtCudaEpStatistics"))};
  }();
  return library;
}

struct Outcome {
  OrtErrorCode code = ORT_OK;
  std::string error;
  OrtEpFactory* factory = nullptr;
  size_t count = 77;
};

class Registration : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(ThePlugin().create, nullptr);
    ASSERT_NE(ThePlugin().release, nullptr);
    FakeHost::ClearLog();
    live_before_ = FakeHost::live_objects();
  }
  void TearDown() override { EXPECT_EQ(FakeHost::live_objects(), live_before_); }

  static Outcome Register(const FakeHost& host, const char* name = "CUDAExecutionProvider", size_t room = 4) {
    Outcome outcome;
    OrtEpFactory* factories[4] = {};
    OrtStatus* status = ThePlugin().create(name, host.base(), FakeHost::logger(), factories, room, &outcome.count);
    outcome.factory = factories[0];
    if (status != nullptr) {
      outcome.code = status->code;
      outcome.error = status->message;
      host.Release(status);
    }
    return outcome;
  }

  static void ExpectFactory(const Outcome& outcome, uint32_t version) {
    EXPECT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.count, 1u);
    EXPECT_EQ(outcome.factory->ort_version_supported, version);
    ThePlugin().release(outcome.factory);
  }

  // Null without a GPU that the library needs.
  static OrtEp* FirstEp(const FakeHost& host, OrtEpFactory* factory) {
    const OrtKeyValuePairs metadata{{{"cuda_ordinal", "0"}}, {}, {}};
    const OrtKeyValuePairs* pairs = &metadata;
    OrtEp* ep = nullptr;
    OrtStatus* status = factory->CreateEp(factory, nullptr, &pairs, 1, nullptr, FakeHost::logger(), &ep);
    if (status == nullptr) return ep;
    EXPECT_TRUE(CUDAEP_TEST_NEEDS_GPU) << status->message;
    host.Release(status);
    return nullptr;
  }

  static void ExpectRefused(const Outcome& outcome, OrtErrorCode code, std::initializer_list<const char*> parts) {
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.count, 0u);
    EXPECT_EQ(outcome.factory, nullptr);
    for (const char* part : parts) EXPECT_NE(outcome.error.find(part), std::string::npos) << outcome.error;
  }

 private:
  int live_before_ = 0;
};

FakeHostConfig Version(const char* text, uint32_t newest_api) { return {.version = text, .newest_api = newest_api}; }

std::string Statistics() {
  std::string text(ThePlugin().statistics(nullptr, 0), '?');
  EXPECT_EQ(ThePlugin().statistics(text.data(), text.size()), text.size());
  EXPECT_EQ(text.find('\0'), text.size() - 1);
  text.pop_back();
  return text;
}

// Of the first device, or of the plans.
int64_t Figure(const std::string& text, const std::string& key) {
  const std::string quoted = '"' + key + "\": ";
  const size_t at = text.find(quoted);
  return at == std::string::npos ? -1 : std::strtoll(text.c_str() + at + quoted.size(), nullptr, 10);
}

TEST_F(Registration, StatisticsNeedNeitherARegistrationNorRoom) {
  ASSERT_NE(ThePlugin().statistics, nullptr);
  EXPECT_NE(Statistics().find("\"version\": \"" CUDAEP_VERSION "\""), std::string::npos) << Statistics();
  std::string small(8, '?');
  EXPECT_GT(ThePlugin().statistics(small.data(), small.size()), small.size());
  EXPECT_EQ(small, "????????");
}

TEST_F(Registration, StatisticsCountSessionsWhileTheyLive) {
  FakeHost host(Version("1.28.0", 99));
  const Outcome outcome = Register(host);
  OrtEp* const first = FirstEp(host, outcome.factory);
  if (first == nullptr) GTEST_SKIP() << "needs a GPU";
  OrtEp* const second = FirstEp(host, outcome.factory);
  EXPECT_EQ(Figure(Statistics(), "sessions"), 2) << Statistics();
  outcome.factory->ReleaseEp(outcome.factory, first);
  EXPECT_EQ(Figure(Statistics(), "sessions"), 1) << Statistics();
  outcome.factory->ReleaseEp(outcome.factory, second);
  EXPECT_EQ(Figure(Statistics(), "sessions"), -1) << Statistics();
  ThePlugin().release(outcome.factory);
  EXPECT_EQ(Figure(Statistics(), "dropped"), 0) << Statistics();
}

TEST_F(Registration, StatisticsWithoutHostMemoryAreNone) {
  int failures = 0;
  for (size_t size = 0; size == 0; ++failures) {
    const test::FailingMemory memory(failures);
    size = ThePlugin().statistics(nullptr, 0);
  }
  EXPECT_GT(failures, 3);
}

TEST_F(Registration, HostUnderTheMinimumIsToldWhatIsNeeded) {
  for (const char* version : {"1.23.2", "1.16.0", "1.1.0"}) {
    FakeHost host(Version(version, version[2] == '2' ? 23 : 16));
    ExpectRefused(Register(host), ORT_NOT_IMPLEMENTED,
                  {"ort-cuda-ep " CUDAEP_VERSION " needs ONNX Runtime 1.24 or newer", "this one is ", version});
    EXPECT_EQ(host.asked_versions(), std::vector<uint32_t>{1});  // more would make the host complain on stderr
  }
}

TEST_F(Registration, NewerHostGetsTheVersionThatWasCompiled) {
  for (const char* version : {"1.28.0", "1.31.1", "1.99.0", "2.0.0", "10.3.1"}) {
    FakeHost host(Version(version, 99));
    ExpectFactory(Register(host), ORT_API_VERSION);
    EXPECT_EQ(host.asked_versions(), std::vector<uint32_t>{ORT_API_VERSION});
  }
}

TEST_F(Registration, HostBetweenGetsItsOwnVersion) {
  for (uint32_t minor = kMinimumApiVersion; minor < ORT_API_VERSION; ++minor) {
    FakeHost host(Version(("1." + std::to_string(minor) + ".1").c_str(), minor));
    ExpectFactory(Register(host), minor);
    EXPECT_EQ(host.asked_versions(), std::vector<uint32_t>{minor});
  }
}

TEST_F(Registration, VersionsAreTriedDownwardsWhereTheHostLacksTheCompiledOne) {
  FakeHost host({.version = "1.40.0", .newest_api = 40, .gaps = {26, ORT_API_VERSION}});
  ExpectFactory(Register(host), 25);
  EXPECT_EQ(host.asked_versions().front(), uint32_t{ORT_API_VERSION});
  EXPECT_EQ(host.asked_versions().back(), 25u);
}

TEST_F(Registration, UnreadableVersionTextIsProbed) {
  for (const char* version : {"", "nightly", "v1.31", "1", "-1.-1"}) {
    ExpectFactory(Register(FakeHost(Version(version, 25))), 25);
  }
  ExpectFactory(Register(FakeHost({.has_version = false, .newest_api = 26})), 26);
}

TEST_F(Registration, HostThatDroppedEveryVersionIsToldWhichWereTried) {
  for (const char* version : {"1.60.0", "2.1.0"}) {
    FakeHost host(Version(version, 23));
    ExpectRefused(Register(host), ORT_NOT_IMPLEMENTED,
                  {"API versions 24 to ", version, "offers none of them", "another release"});
  }
}

TEST_F(Registration, HostBuiltWithoutTheProviderApiIsNamed) {
  FakeHost host({.version = "1.27.0", .has_ep_api = false});
  ExpectRefused(Register(host), ORT_NOT_IMPLEMENTED, {"built without it", "1.27.0", "standard build"});
}

TEST_F(Registration, HostWithoutAnyApiGetsNothing) {
  FakeHost host({.version = "1.27.0", .newest_api = 0});
  ExpectRefused(Register(host), ORT_OK, {});
}

TEST_F(Registration, HostWithoutRoomForAFactoryIsRefused) {
  ExpectRefused(Register(FakeHost({}), "CUDAExecutionProvider", 0), ORT_INVALID_ARGUMENT, {"no room for a factory"});
}

// Wherever host memory ends, the host gets an error and nothing stays behind; no exception leaves the library.
TEST_F(Registration, HostMemoryThatEndsIsAnError) {
  const FakeHost host({.version = "1.24.0",
                       .newest_api = 24,
                       .environment = {{"ep_factory.CUDAExecutionProvider.arena.max_mem", "1000000"}}});
  const FakeHost unfit({.version = "1.60.0", .newest_api = 23}, 1);
  for (const FakeHost* each : {&host, &unfit}) {
    int failures = 0;
    for (;; ++failures) {
      OrtEpFactory* factories[1] = {};
      size_t count = 77;
      OrtStatus* status = nullptr;
      {
        const test::FailingMemory memory(failures);
        status = ThePlugin().create("CUDAExecutionProvider", each->base(), FakeHost::logger(), factories, 1, &count);
      }
      const std::string error = status == nullptr ? "" : status->message;
      FakeHost::Release(status);
      if (count == 1) ThePlugin().release(factories[0]);
      if (error != "OUT_OF_MEMORY: host memory is exhausted") {
        EXPECT_EQ(error.empty(), each == &host) << error;
        break;
      }
      EXPECT_EQ(count, 0u);
    }
    EXPECT_GT(failures, 3);
  }
}

// The log of a host of 1.24 has lines about what it lacks; whose logger gets them?
size_t LinesOfARegistration(const OrtLogger* logger, const char* name, const FakeHost& host) {
  FakeHost::ClearLog();
  OrtEpFactory* factories[1] = {};
  size_t count = 0;
  OrtStatus* status = ThePlugin().create(name, host.base(), logger, factories, 1, &count);
  FakeHost::Release(status);
  if (count == 1) ThePlugin().release(factories[0]);
  return FakeHost::log().size();
}

TEST_F(Registration, SecondOneLeavesTheFirstItsLog) {
  const FakeHost host(Version("1.24.0", 24));
  const Outcome first = Register(host);
  ASSERT_EQ(first.count, 1u) << first.error;
  const auto* const other = reinterpret_cast<const OrtLogger*>(&host);
  const size_t lines = LinesOfARegistration(other, "CudaPluginExecutionProvider", host);
  EXPECT_GT(lines, 0u);
  EXPECT_EQ(FakeHost::last_logger(), FakeHost::logger());
  EXPECT_EQ(LinesOfARegistration(nullptr, "CudaPluginExecutionProvider", host), lines);  // after the second has ended
  EXPECT_EQ(FakeHost::last_logger(), FakeHost::logger());
  ThePlugin().release(first.factory);
  EXPECT_EQ(LinesOfARegistration(nullptr, "CUDAExecutionProvider", host), 0u);
  EXPECT_GT(LinesOfARegistration(other, "CUDAExecutionProvider", host), 0u);
  EXPECT_EQ(FakeHost::last_logger(), other);
}

TEST_F(Registration, OneThatFailsLeavesTheFirstItsLog) {
  const Outcome first = Register(FakeHost(Version("1.24.0", 24)));
  ASSERT_EQ(first.count, 1u) << first.error;
  FakeHost malformed({.version = "1.24.0",
                      .newest_api = 24,
                      .environment = {{"ep_factory.CUDAExecutionProvider.arena.max_mem", "-1"}}});
  ExpectRefused(Register(malformed), ORT_INVALID_ARGUMENT, {"arena.max_mem"});
  EXPECT_GT(LinesOfARegistration(nullptr, "CudaPluginExecutionProvider", FakeHost(Version("1.24.0", 24))), 0u);
  ThePlugin().release(first.factory);
}

// A session may outlive the registration; the host's logger does not.
TEST_F(Registration, NothingIsLoggedThroughTheLoggerOfOneThatEnded) {
  const FakeHost host(Version("1.24.0", 24));
  const Outcome first = Register(host);
  ASSERT_EQ(first.count, 1u) << first.error;
  OrtEp* const ep = FirstEp(host, first.factory);
  if (ep == nullptr) {
    ThePlugin().release(first.factory);
    GTEST_SKIP() << "no GPU";
  }
  ThePlugin().release(first.factory);
  EXPECT_EQ(LinesOfARegistration(nullptr, "CUDAExecutionProvider", host), 0u);
  first.factory->ReleaseEp(first.factory, ep);
}

TEST_F(Registration, MalformedEnvironmentEntryLeavesNothingBehind) {
  FakeHost host({.environment = {{"ep_factory.CUDAExecutionProvider.arena.max_mem", "-1"}}});
  ExpectRefused(Register(host), ORT_INVALID_ARGUMENT, {"ep_factory.CUDAExecutionProvider.arena.max_mem", "-1"});
}

TEST_F(Registration, NameFollowsTheRegistration) {
  const std::pair<const char*, const char*> cases[] = {{"CUDAExecutionProvider", "CUDAExecutionProvider"},
                                                       {"CudaPluginExecutionProvider", "CudaPluginExecutionProvider"},
                                                       {"anything", "CUDAExecutionProvider"},
                                                       {nullptr, "CUDAExecutionProvider"}};
  for (const auto& [registered, expected] : cases) {
    const Outcome outcome = Register(FakeHost({}), registered);
    ASSERT_EQ(outcome.count, 1u) << outcome.error;
    EXPECT_STREQ(outcome.factory->GetName(outcome.factory), expected);
    ThePlugin().release(outcome.factory);
  }
  EXPECT_EQ(ThePlugin().release(nullptr), nullptr);
}

TEST_F(Registration, WhatAHostLacksIsSaidOnceEach) {
  for (uint32_t version = kMinimumApiVersion; version <= ORT_API_VERSION; ++version) {
    FakeHost::ClearLog();
    ExpectFactory(Register(FakeHost(Version(("1." + std::to_string(version) + ".0").c_str(), version))), version);
    for (const HostFeature& feature : kHostFeatures) {
      const std::string part = std::string(" has no ") + feature.name + " (since 1." + std::to_string(feature.since);
      const auto lines = std::count_if(FakeHost::log().begin(), FakeHost::log().end(), [&](const std::string& line) {
        return line.starts_with("1 ONNX Runtime 1.") && line.find(part) != std::string::npos;  // 1: level info
      });
      EXPECT_EQ(lines, version < feature.since ? 1 : 0) << "1." << version << part;
    }
  }
}

bool IsZero(const void* object, size_t from, size_t to) {
  const auto* bytes = static_cast<const char*>(object);
  return std::all_of(bytes + from, bytes + to, [](char byte) { return byte == 0; });
}

TEST_F(Registration, CallbacksNewerThanTheHostStayNull) {
  for (uint32_t version = kMinimumApiVersion; version <= ORT_API_VERSION; ++version) {
    FakeHost host(Version(("1." + std::to_string(version) + ".0").c_str(), version));
    const Outcome outcome = Register(host);
    ASSERT_EQ(outcome.count, 1u) << outcome.error;
    OrtEpFactory* factory = outcome.factory;
    OrtEp* const ep = FirstEp(host, factory);
    if (ep == nullptr) GTEST_SKIP() << "no GPU";
    EXPECT_EQ(ep->ort_version_supported, version);
    EXPECT_EQ(ep->Sync != nullptr, version >= kApiSync);
    size_t known = sizeof(OrtEp);
    if (version < 27) known = offsetof(OrtEp, OnSessionInitializationEnd);
    if (version < 26) known = offsetof(OrtEp, IsGraphCaptureEnabled);
    if (version < 25) known = offsetof(OrtEp, Sync);
    EXPECT_TRUE(IsZero(ep, known, sizeof(OrtEp))) << "a slot that 1." << version << " does not have is set";

    const OrtMemoryInfo info{"Cuda"};
    OrtAllocator* allocator = nullptr;
    ASSERT_EQ(factory->CreateAllocator(factory, &info, nullptr, &allocator), nullptr);
    EXPECT_EQ(allocator->version, version);
    EXPECT_EQ(allocator->Shrink != nullptr, version >= kApiShrink);
    factory->ReleaseAllocator(factory, allocator);
    factory->ReleaseEp(factory, ep);
    ThePlugin().release(factory);
  }
}

// Exactly where each Run has a stream of its own.
TEST_F(Registration, ConcurrentRunsAreAdvertisedUnlessTheyShareAStream) {
  const struct {
    std::map<std::string, std::string> session;
    bool concurrent;
  } cases[] = {{{}, true},
               {{{"use_ep_level_unified_stream", "0"}, {"do_copy_in_default_stream", "0"}}, true},
               {{{"order_with_legacy_stream", "1"}}, true},
               {{{"use_ep_level_unified_stream", "1"}}, false},
               {{{"user_compute_stream", "0"}}, false},
               {{{"user_compute_stream", "0"}, {"has_user_compute_stream", "0"}}, true}};
  for (const auto& expected : cases) {
    FakeHostConfig config = Version("1.27.0", 27);
    for (const auto& [name, value] : expected.session) config.session["ep.cudaexecutionprovider." + name] = value;
    FakeHost host(std::move(config));
    const Outcome outcome = Register(host);
    ASSERT_EQ(outcome.count, 1u) << outcome.error;
    OrtEpFactory* factory = outcome.factory;
    OrtEp* const ep = FirstEp(host, factory);
    if (ep == nullptr) GTEST_SKIP() << "no GPU";
    bool concurrent = !expected.concurrent;
    ASSERT_EQ(ep->IsConcurrentRunSupported(ep, &concurrent), nullptr);
    EXPECT_EQ(concurrent, expected.concurrent) << (expected.session.empty() ? "" : expected.session.begin()->first);
    factory->ReleaseEp(factory, ep);
    ThePlugin().release(factory);
  }
}

TEST_F(Registration, SecondCopyOfTheHostIsRefusedWhileTheFirstIsInUse) {
  FakeHost first(Version("1.25.0", 25), 0);
  FakeHost second(Version("1.27.0", 27), 1);
  const Outcome outcome = Register(first);
  ASSERT_EQ(outcome.count, 1u) << outcome.error;
  ExpectRefused(Register(second), ORT_FAIL, {"already uses ort-cuda-ep", "another copy of ONNX Runtime (1.25.0)"});
  FakeHost mute({.newest_api = 0}, 1);
  ExpectRefused(Register(mute), ORT_OK, {});
  ExpectFactory(Register(first, "CudaPluginExecutionProvider"), 25);  // the same host, under another name
  ThePlugin().release(outcome.factory);
  ExpectFactory(Register(FakeHost(Version("1.27.0", 27), 1)), 27);
}

}  // namespace
}  // namespace cudaep::abi
