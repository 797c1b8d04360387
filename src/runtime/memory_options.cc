#include "runtime/memory_options.h"

#include "runtime/option_parsing.h"

namespace cudaep {
namespace {

using memory::ArenaConfig;
using memory::ArenaMode;
using memory::ExtendStrategy;
using option_parsing::IsFlag;
using option_parsing::kBool;
using option_parsing::kPointer;
using option_parsing::ParseBool;
using option_parsing::ParseInt;
using option_parsing::ParsePointer;
using option_parsing::ValueOf;

constexpr const char* kBytes = "bytes, 0 to 9223372036854775807";
constexpr const char* kSomeBytes = "bytes, 1 to 9223372036854775807";
constexpr const char* kLimit = "bytes, 0 to 18446744073709551615; 0 and the greatest for none";
constexpr const char* kStrategies = "kNextPowerOfTwo or 0, kSameAsRequested or 1";

// The greatest number is what other providers have as their default.
size_t LimitOf(uint64_t value) { return value == UINT64_MAX ? 0 : static_cast<size_t>(value); }

bool SetMemoryLimit(Settings& settings, std::string_view text) {
  uint64_t value = 0;
  if (!ParseInt(text, &value) || value == 0) return false;
  settings.memory.limit_bytes = LimitOf(value);
  return true;
}

bool SetArenaLimit(Settings& settings, std::string_view text) {
  uint64_t value = 0;
  if (!ParseInt(text, &value)) return false;
  settings.memory.arena.max_bytes = LimitOf(value);
  return true;
}

// Sizes stay below half of the address space, so that rounding them up never overflows.
template <size_t ArenaConfig::*kMember, uint64_t kLeast>
bool SetBytes(Settings& settings, std::string_view text) {
  uint64_t value = 0;
  if (!ParseInt(text, &value) || value < kLeast || value > INT64_MAX) return false;
  settings.memory.arena.*kMember = static_cast<size_t>(value);
  return true;
}

bool ParseStrategy(std::string_view text, ExtendStrategy* out) {
  const bool doubles = text == "kNextPowerOfTwo" || text == "0";
  if (!doubles && text != "kSameAsRequested" && text != "1") return false;
  *out = doubles ? ExtendStrategy::kNextPowerOfTwo : ExtendStrategy::kSameAsRequested;
  return true;
}

bool SetStrategy(Settings& settings, std::string_view text) {
  return ParseStrategy(text, &settings.memory.arena.extend_strategy);
}

bool SetArenaEnabled(Settings& settings, std::string_view text) {
  bool enabled = true;
  if (!ParseBool(text, &enabled)) return false;
  ArenaMode& mode = settings.memory.arena.mode;
  if (!enabled) mode = ArenaMode::kNone;
  if (enabled && mode == ArenaMode::kNone) mode = ArenaMode::kArena;
  return true;
}

bool SetUsePool(Settings& settings, std::string_view text) {
  bool pool = false;
  if (!ParseBool(text, &pool)) return false;
  ArenaMode& mode = settings.memory.arena.mode;
  if (pool) mode = ArenaMode::kPool;
  if (!pool && mode == ArenaMode::kPool) mode = ArenaMode::kArena;
  return true;
}

template <void* memory::ExternalAddresses::*kMember>
bool SetCallback(Settings& settings, std::string_view text) {
  return ParsePointer(text, &(settings.memory.external.*kMember));
}

bool SetFailure(Settings& settings, std::string_view text) { return ParseInt(text, &settings.memory.fail_allocation); }

bool SetRequireTags(Settings& settings, std::string_view text) {
  return ParseBool(text, &settings.memory.require_stream_tags);
}

bool SetRecord(Settings& settings, std::string_view text) {
  settings.memory.record_path = text;
  return text.starts_with('/') && text.find('\0') == std::string_view::npos;
}

constexpr OptionKind kUpstream = OptionKind::kUpstream;

constexpr OptionRow kTable[] = {
    {"gpu_mem_limit", "bytes, 1 to 18446744073709551615, the greatest for none", "none",
     "most device memory the provider takes: weights, arena, scratch memory, library handles", SetMemoryLimit, nullptr,
     kUpstream},
    {"arena.enable", kBool, "1", "0: every allocation is the driver's", SetArenaEnabled, nullptr},
    {"arena.use_cuda_mempool", kBool, "0", "1: the driver's stream-ordered pool instead of the arena", SetUsePool,
     nullptr, kUpstream},
    {"arena.max_mem", kLimit, "0", "most memory that arena or pool take from the driver", SetArenaLimit, nullptr,
     kUpstream},
    {"arena.extend_strategy", kStrategies, "kNextPowerOfTwo", "how the arena grows", SetStrategy, nullptr, kUpstream},
    {"arena_extend_strategy", kStrategies, "kNextPowerOfTwo", "another name of arena.extend_strategy", SetStrategy,
     nullptr, kUpstream},
    {"arena.initial_chunk_size_bytes", kSomeBytes, "1048576", "the first region",
     SetBytes<&ArenaConfig::initial_chunk_bytes, 1>, nullptr, kUpstream},
    {"arena.initial_growth_chunk_size_bytes", kSomeBytes, "2097152", "the first region after a shrink",
     SetBytes<&ArenaConfig::initial_growth_chunk_bytes, 1>, nullptr, kUpstream},
    {"arena.max_dead_bytes_per_chunk", kBytes, "134217728", "most a chunk may exceed its request by",
     SetBytes<&ArenaConfig::max_dead_bytes_per_chunk, 0>, nullptr, kUpstream},
    {"arena.max_power_of_two_extend_bytes", kSomeBytes, "1073741824", "regions stop doubling here",
     SetBytes<&ArenaConfig::max_power_of_two_extend_bytes, 1>, nullptr, kUpstream},
    {"arena.cuda_mempool_release_threshold", kBytes, "0", "what the pool keeps at a synchronisation",
     SetBytes<&ArenaConfig::pool_release_threshold_bytes, 0>, nullptr, kUpstream},
    {"arena.cuda_mempool_bytes_to_keep_on_shrink", kBytes, "0", "what the pool keeps when it is shrunk",
     SetBytes<&ArenaConfig::pool_bytes_to_keep_on_shrink, 0>, nullptr, kUpstream},
    {"gpu_external_alloc", kPointer, "0", "void* alloc(size_t) of the caller's allocator",
     SetCallback<&memory::ExternalAddresses::alloc>, nullptr, kUpstream},
    {"gpu_external_free", kPointer, "0", "void free(void*) of the caller's allocator",
     SetCallback<&memory::ExternalAddresses::free>, nullptr, kUpstream},
    {"gpu_external_empty_cache", kPointer, "0", "void empty_cache(), called when memory is shrunk",
     SetCallback<&memory::ExternalAddresses::empty_cache>, nullptr, kUpstream},
    {"debug.fail_allocation", "a number, 0 for none", "0",
     "the session's allocation request of this number, from 1, fails once", SetFailure, nullptr},
    {"debug.require_stream_tags", kBool, "0", "1: a request for device memory that names no stream fails",
     SetRequireTags, nullptr},
    {"debug.record_allocations", "a file's absolute path", "none",
     "writes the session's requests for tensor memory there", SetRecord, nullptr},
};

Status CheckStrategies(const OptionList& given) {
  const auto a = ValueOf(given, "arena.extend_strategy"), b = ValueOf(given, "arena_extend_strategy");
  ExtendStrategy first{}, second{};
  if (!a || !b || !ParseStrategy(*a, &first) || !ParseStrategy(*b, &second) || first == second) return Status::Ok();
  return InvalidArgument("provider options arena.extend_strategy='", *a, "' and arena_extend_strategy='", *b,
                         "' are names of one option and contradict each other");
}

Status CheckExternal(const OptionList& given, const Settings& settings) {
  const memory::ExternalAddresses& external = settings.memory.external;
  if (external.alloc == nullptr && external.free == nullptr) {
    if (external.empty_cache == nullptr) return Status::Ok();
    return InvalidArgument(
        "provider option gpu_external_empty_cache is set, but gpu_external_alloc and gpu_external_free are not");
  }
  if (external.alloc == nullptr || external.free == nullptr) {
    return InvalidArgument("provider options gpu_external_alloc and gpu_external_free need each other; ",
                           external.alloc == nullptr ? "gpu_external_alloc" : "gpu_external_free", " is not set");
  }
  for (const auto& [name, value] : given) {
    // Switches agree with the caller's memory unless they ask for the pool; sizes would have no effect.
    if (!name.starts_with("arena.") || name == "arena.enable") continue;
    if (name == "arena.use_cuda_mempool" && !IsFlag(given, name, true)) continue;
    return InvalidArgument("provider option ", name, "='", value,
                           "' has no meaning with gpu_external_alloc: the caller's allocator takes the arena's place");
  }
  return Status::Ok();
}

}  // namespace

std::span<const OptionRow> MemoryOptions() { return kTable; }

Status CheckMemoryOptions(const OptionList& given, const Settings& settings) {
  CUDAEP_RETURN_IF_ERROR(CheckStrategies(given));
  if (IsFlag(given, "arena.enable", false) && IsFlag(given, "arena.use_cuda_mempool", true)) {
    return InvalidArgument("provider options arena.enable='0' and arena.use_cuda_mempool='1' contradict each other");
  }
  return CheckExternal(given, settings);
}

}  // namespace cudaep
