#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/strings.h"
#include "runtime/options_table.h"

namespace cudaep {
namespace {

using memory::ArenaMode;
using memory::ExtendStrategy;
using memory::MemoryConfig;

MemoryConfig Parsed(const OptionList& options, const Settings& base = {}) {
  Result<Settings> settings = ParseOptions(options, base);
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  return settings.ok() ? settings.value().memory : MemoryConfig{};
}

std::string Refusal(const OptionList& options) {
  const Status status = ParseOptions(options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  return std::string(status.message());
}

struct Accepted {
  const char* name;
  const char* value;
  std::function<bool(const MemoryConfig&)> holds;
};

TEST(MemoryOptions, EveryRowSetsWhatItSays) {
  const Accepted cases[] = {
      {"gpu_mem_limit", "4294967297", [](const auto& m) { return m.limit_bytes == 4294967297u; }},
      {"gpu_mem_limit", "18446744073709551615", [](const auto& m) { return m.limit_bytes == 0; }},
      {"arena.enable", "0", [](const auto& m) { return m.arena.mode == ArenaMode::kNone; }},
      {"arena.enable", "1", [](const auto& m) { return m.arena.mode == ArenaMode::kArena; }},
      {"arena.use_cuda_mempool", "1", [](const auto& m) { return m.arena.mode == ArenaMode::kPool; }},
      {"arena.use_cuda_mempool", "0", [](const auto& m) { return m.arena.mode == ArenaMode::kArena; }},
      {"arena.max_mem", "8589934592", [](const auto& m) { return m.arena.max_bytes == 8589934592u; }},
      {"arena.max_mem", "0", [](const auto& m) { return m.arena.max_bytes == 0; }},
      {"arena.max_mem", "18446744073709551615", [](const auto& m) { return m.arena.max_bytes == 0; }},
      {"arena.extend_strategy", "kSameAsRequested",
       [](const auto& m) { return m.arena.extend_strategy == ExtendStrategy::kSameAsRequested; }},
      {"arena.extend_strategy", "1",
       [](const auto& m) { return m.arena.extend_strategy == ExtendStrategy::kSameAsRequested; }},
      {"arena_extend_strategy", "kSameAsRequested",
       [](const auto& m) { return m.arena.extend_strategy == ExtendStrategy::kSameAsRequested; }},
      {"arena_extend_strategy", "0",
       [](const auto& m) { return m.arena.extend_strategy == ExtendStrategy::kNextPowerOfTwo; }},
      {"arena.initial_chunk_size_bytes", "77", [](const auto& m) { return m.arena.initial_chunk_bytes == 77; }},
      {"arena.initial_growth_chunk_size_bytes", "78",
       [](const auto& m) { return m.arena.initial_growth_chunk_bytes == 78; }},
      {"arena.max_dead_bytes_per_chunk", "0", [](const auto& m) { return m.arena.max_dead_bytes_per_chunk == 0; }},
      {"arena.max_power_of_two_extend_bytes", "79",
       [](const auto& m) { return m.arena.max_power_of_two_extend_bytes == 79; }},
      {"arena.cuda_mempool_release_threshold", "9223372036854775807",
       [](const auto& m) { return m.arena.pool_release_threshold_bytes == INT64_MAX; }},
      {"arena.cuda_mempool_bytes_to_keep_on_shrink", "80",
       [](const auto& m) { return m.arena.pool_bytes_to_keep_on_shrink == 80; }},
      {"debug.fail_allocation", "3", [](const auto& m) { return m.fail_allocation == 3; }},
      {"debug.require_stream_tags", "1", [](const auto& m) { return m.require_stream_tags; }},
      {"debug.record_allocations", "/a/record", [](const auto& m) { return m.record_path == "/a/record"; }},
  };
  for (const Accepted& c : cases) EXPECT_TRUE(c.holds(Parsed({{c.name, c.value}}))) << c.name << "=" << c.value;
}

// What no row that counts or measures may take.
const char* const kNeverNumbers[] = {"",
                                     "-1",
                                     "-5",
                                     "+1",
                                     " 1",
                                     "1 ",
                                     "1e9",
                                     "0x10",
                                     "1.5",
                                     "1GiB",
                                     "inf",
                                     "unlimited",
                                     "٣",
                                     "1,000",
                                     "0b1",
                                     "--1",
                                     "nan",
                                     "18446744073709551616",
                                     "99999999999999999999999999"};
const char* const kNeverFlags[] = {"", "2", "-1", "yes", "on", "TRUE", " 1", "1 ", "01"};

void ExpectRefused(const std::string& name, const std::string& value) {
  const std::string text = Refusal({{name, value}});
  EXPECT_NE(text.find(StrCat("provider option ", name, "='", value, "' is malformed; accepted: ")), std::string::npos)
      << text;
}

TEST(MemoryOptions, MalformedNumbersAreRefusedByNameAndValue) {
  const char* const numbers[] = {"gpu_mem_limit",
                                 "arena.max_mem",
                                 "arena.initial_chunk_size_bytes",
                                 "arena.max_dead_bytes_per_chunk",
                                 "arena.initial_growth_chunk_size_bytes",
                                 "arena.max_power_of_two_extend_bytes",
                                 "arena.cuda_mempool_release_threshold",
                                 "arena.cuda_mempool_bytes_to_keep_on_shrink",
                                 "debug.fail_allocation"};
  for (const char* name : numbers) {
    for (const char* value : kNeverNumbers) ExpectRefused(name, value);
  }
}

TEST(MemoryOptions, SizesThatCannotBeRoundedUpAreRefused) {
  for (const char* name : {"arena.initial_chunk_size_bytes", "arena.max_dead_bytes_per_chunk",
                           "arena.initial_growth_chunk_size_bytes", "arena.max_power_of_two_extend_bytes",
                           "arena.cuda_mempool_release_threshold", "arena.cuda_mempool_bytes_to_keep_on_shrink"}) {
    ExpectRefused(name, "9223372036854775808");
    ExpectRefused(name, "18446744073709551615");
  }
}

TEST(MemoryOptions, ZeroIsRefusedWhereItMeansNothing) {
  for (const char* name : {"gpu_mem_limit", "arena.initial_chunk_size_bytes", "arena.initial_growth_chunk_size_bytes",
                           "arena.max_power_of_two_extend_bytes"}) {
    ExpectRefused(name, "0");
  }
}

TEST(MemoryOptions, MalformedFlagsStrategiesAndAddressesAreRefused) {
  for (const char* name : {"arena.enable", "arena.use_cuda_mempool", "debug.require_stream_tags"}) {
    for (const char* value : kNeverFlags) ExpectRefused(name, value);
  }
  for (const char* name : {"arena.extend_strategy", "arena_extend_strategy"}) {
    for (const char* value : {"", "2", "-1", "knextpoweroftwo", "NextPowerOfTwo", "kSameAsRequested "}) {
      ExpectRefused(name, value);
    }
  }
  for (const char* name : {"gpu_external_alloc", "gpu_external_free", "gpu_external_empty_cache"}) {
    for (const char* value : {"", "-1", "0x", "0xzz", "abc", "18446744073709551616", "0x10000000000000000"}) {
      ExpectRefused(name, value);
    }
  }
}

TEST(MemoryOptions, PathsAreAbsolute) {
  for (const char* value : {"", "record.txt", "~/record.txt", " /record.txt"}) {
    ExpectRefused("debug.record_allocations", value);
  }
  EXPECT_FALSE(ParseOptions({{"debug.record_allocations", std::string("/a\0b", 4)}}).ok());
}

TEST(MemoryOptions, EveryMemoryRowHasAMalformedCaseHere) {
  // A row added to the table and not to the lists above: every one refuses at least the text of a question mark.
  for (const OptionRow& row : OptionTable()) {
    const std::string name = row.name;
    if (name.starts_with("arena") || name.starts_with("gpu_") || name.starts_with("debug.")) ExpectRefused(name, "?");
  }
}

TEST(MemoryOptions, UnknownArenaAndDebugNamesAreRefused) {
  for (const char* name : {"arena.max_memory", "arena.", "arena", "debug.fail", "Arena.enable"}) {
    EXPECT_TRUE(Refusal({{name, "1"}}).starts_with(StrCat("unknown provider option '", name, "'"))) << name;
  }
}

TEST(MemoryOptions, TheTwoNamesOfTheStrategyMustAgree) {
  EXPECT_EQ(Refusal({{"arena_extend_strategy", "kSameAsRequested"}, {"arena.extend_strategy", "0"}}),
            "provider options arena.extend_strategy='0' and arena_extend_strategy='kSameAsRequested' are names of one "
            "option and contradict each other");
  EXPECT_EQ(
      Parsed({{"arena_extend_strategy", "1"}, {"arena.extend_strategy", "kSameAsRequested"}}).arena.extend_strategy,
      ExtendStrategy::kSameAsRequested);
}

TEST(MemoryOptions, TheModeSwitchesCombineInAnyOrder) {
  using Order = std::vector<OptionList>;
  for (const OptionList& pool : Order{{{"arena.enable", "1"}, {"arena.use_cuda_mempool", "1"}},
                                      {{"arena.use_cuda_mempool", "1"}, {"arena.enable", "1"}}}) {
    EXPECT_EQ(Parsed(pool).arena.mode, ArenaMode::kPool);
  }
  for (const OptionList& none : Order{{{"arena.enable", "0"}, {"arena.use_cuda_mempool", "0"}},
                                      {{"arena.use_cuda_mempool", "0"}, {"arena.enable", "0"}}}) {
    EXPECT_EQ(Parsed(none).arena.mode, ArenaMode::kNone);
  }
  EXPECT_NE(Refusal({{"arena.use_cuda_mempool", "1"}, {"arena.enable", "0"}}).find("contradict each other"),
            std::string::npos);
}

TEST(MemoryOptions, ASessionStartsFromTheEnvironmentAndWins) {
  Settings environment;
  environment.memory.arena.mode = ArenaMode::kPool;
  environment.memory.arena.max_bytes = 1000;
  EXPECT_EQ(Parsed({}, environment), environment.memory);
  EXPECT_EQ(Parsed({{"arena.enable", "0"}}, environment).arena.mode, ArenaMode::kNone);
  EXPECT_EQ(Parsed({{"arena.use_cuda_mempool", "0"}}, environment).arena.mode, ArenaMode::kArena);
  const MemoryConfig config = Parsed({{"arena.max_mem", "2000"}}, environment);
  EXPECT_EQ(config.arena.mode, ArenaMode::kPool);
  EXPECT_EQ(config.arena.max_bytes, 2000u);
}

TEST(MemoryOptions, CallbacksNeedEachOther) {
  EXPECT_NE(Refusal({{"gpu_external_alloc", "16"}}).find("gpu_external_free is not set"), std::string::npos);
  EXPECT_NE(Refusal({{"gpu_external_free", "0x10"}}).find("gpu_external_alloc is not set"), std::string::npos);
  EXPECT_NE(Refusal({{"gpu_external_empty_cache", "16"}}).find("gpu_external_alloc and gpu_external_free are not"),
            std::string::npos);
  const MemoryConfig config = Parsed({{"gpu_external_alloc", "16"}, {"gpu_external_free", "0x20"}});
  EXPECT_EQ(config.external.alloc, reinterpret_cast<void*>(16));
  EXPECT_EQ(config.external.free, reinterpret_cast<void*>(32));
  EXPECT_EQ(config.external.empty_cache, nullptr);
  EXPECT_TRUE(config.is_external());
  // What other providers take as "none".
  EXPECT_FALSE(Parsed({{"gpu_external_alloc", "0"}, {"gpu_external_free", "0"}}).is_external());
}

TEST(MemoryOptions, ExternalMemoryRefusesWhatWouldHaveNoEffect) {
  const OptionList external = {{"gpu_external_alloc", "16"}, {"gpu_external_free", "32"}};
  const auto with = [&](const char* name, const char* value) {
    OptionList list = external;
    list.emplace_back(name, value);
    return list;
  };
  for (const char* name : {"arena.use_cuda_mempool", "arena.max_mem", "arena.initial_chunk_size_bytes"}) {
    EXPECT_NE(Refusal(with(name, "1")).find(StrCat(name, "='1' has no meaning with gpu_external_alloc")),
              std::string::npos);
  }
  for (const auto& [name, value] : OptionList{{"arena.enable", "0"},
                                              {"arena.enable", "1"},
                                              {"arena.use_cuda_mempool", "0"},
                                              {"arena_extend_strategy", "kSameAsRequested"},
                                              {"gpu_mem_limit", "1000"},
                                              {"user_compute_stream", "64"}}) {
    EXPECT_TRUE(ParseOptions(with(name.c_str(), value.c_str())).ok()) << name;
  }
}

TEST(MemoryOptions, OnlyPlainConfigurationsAreShared) {
  EXPECT_TRUE(Parsed({{"gpu_mem_limit", "1000"}, {"arena.enable", "0"}}).shareable());
  EXPECT_FALSE(Parsed({{"gpu_external_alloc", "16"}, {"gpu_external_free", "32"}}).shareable());
  EXPECT_FALSE(Parsed({{"debug.fail_allocation", "1"}}).shareable());
  EXPECT_FALSE(Parsed({{"debug.require_stream_tags", "1"}}).shareable());
}

TEST(MemoryOptions, DefaultsInTheTableAreThoseOfTheCode) {
  const MemoryConfig untouched;
  for (const OptionRow& row : OptionTable()) {
    if (std::string_view(row.default_value) == "none") continue;
    Settings settings;
    if (!std::string_view(row.name).starts_with("arena") && !std::string_view(row.name).starts_with("debug")) continue;
    ASSERT_TRUE(row.set(settings, row.default_value)) << row.name;
    EXPECT_EQ(settings.memory, untouched) << row.name << "=" << row.default_value;
  }
}

}  // namespace
}  // namespace cudaep
