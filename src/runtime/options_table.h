// The provider's options: one table of names, kinds, defaults and documentation, and the parser over it.
//
// The table is made of groups: streams (runtime/stream_options.cc), CUDA graphs (runtime/graph_options.cc),
// collectives (runtime/collective_options.cc), memory (runtime/memory_options.cc), what is ignored
// (runtime/ignored_options.cc), and everything else (runtime/options_table.cc). Provider options, `ep.*` session
// entries, docs/options.md and the fuzzer all read this table. Errors: kInvalidArgument for an unknown name or a
// malformed value, naming both and the values accepted; kNotSupported for a known option whose value asks for something
// this build does not offer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "runtime/settings.h"

namespace cudaep {

enum class OptionKind : uint8_t {
  kOurs,
  kUpstream,  // of the same name and meaning as in upstream's provider
  kIgnored,   // upstream's too, but nothing changes here (runtime/ignored_options.h)
};

struct OptionRow {
  const char* name;
  const char* accepts;  // the values, as text for people
  const char* default_value;
  const char* doc;  // one line
  // Parses `value` into `settings`; false when the value is malformed.
  bool (*set)(Settings& settings, std::string_view value);
  // The only value on offer yet, when the option exists for compatibility alone; null otherwise.
  const char* only_value;
  OptionKind kind = OptionKind::kOurs;
};

std::span<const OptionRow> OptionTable();

using OptionList = std::vector<std::pair<std::string, std::string>>;

// Parses and cross-checks; later entries win over earlier ones of the same name, and all of them over `base`.
Result<Settings> ParseOptions(const OptionList& options, const Settings& base = {});

// "name=value" of every option as parsed or by default, in table order, for the log.
std::string DescribeOptions(const OptionList& options);

}  // namespace cudaep
