#include "abi/session_options.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>

#include "core/log.h"
#include "core/strings.h"

namespace cudaep::abi {
namespace {

// Those entries of `pairs` under the first prefix that has them; `only` is what the rest of a key must start with.
OptionList Collect(const OrtKeyValuePairs* pairs, std::span<const std::string> prefixes, std::string_view only) {
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  Host().ort->GetKeyValuePairs(pairs, &keys, &values, &count);
  OptionList list;
  for (const std::string& prefix : prefixes) {
    for (size_t i = 0; i < count; ++i) {
      const std::string_view key = keys[i];
      if (!key.starts_with(prefix) || !key.substr(prefix.size()).starts_with(only)) continue;
      std::string name(key.substr(prefix.size()));
      const auto given = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
      if (given == list.end()) {
        list.emplace_back(std::move(name), values[i]);
      } else if (given->second != values[i]) {
        Log(LogLevel::kWarning, "configuration entry ", key, "='", values[i], "' is ignored: ", prefixes[0], name,
            " is '", given->second, "'");
      }
    }
  }
  return list;
}

}  // namespace

Result<OptionList> ReadSessionOptions(const OrtSessionOptions* options, const std::string& ep_name) {
  OrtKeyValuePairs* raw = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetSessionOptionsConfigEntries(options, &raw));
  const UniqueKeyValuePairs pairs(raw);
  std::string lower = ep_name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string prefixes[] = {StrCat("ep.", lower, "."), "ep.cuda."};
  return Collect(pairs.get(), prefixes, "");
}

bool MakesContextModel(const OrtSessionOptions* options) {
  char value[8] = {};
  size_t size = sizeof(value);
  return FromOrt(Host().ort->GetSessionConfigEntry(options, kContextEnableKey, value, &size)).ok() &&
         std::string_view(value) == "1";
}

bool PlacesNodesOnStreams(const OrtSessionOptions* options) {
  size_t size = 0;  // with the end of the text
  return FromOrt(Host().ort->GetSessionConfigEntry(options, kNodePartitionKey, nullptr, &size)).ok() && size > 1;
}

Result<OptionList> ReadEnvironmentOptions(const std::string& ep_name, const std::string& registration_name) {
  OrtKeyValuePairs* raw = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->GetEnvConfigEntries(&raw));
  const UniqueKeyValuePairs pairs(raw);
  const std::string prefixes[] = {StrCat("ep_factory.", ep_name, "."), StrCat("ep_factory.", registration_name, ".")};
  const size_t names = registration_name.empty() || registration_name == ep_name ? 1 : 2;
  OptionList list = Collect(pairs.get(), std::span(prefixes).first(names), "arena.");
  for (const auto& entry : list) {
    CUDAEP_RETURN_IF_ERROR(
        ParseOptions({entry}).status().WithContext(StrCat("environment entry ep_factory.", ep_name, ".", entry.first)));
  }
  return list;
}

OptionList ReadPlainOptions(const OrtKeyValuePairs* options) {
  const std::string no_prefix;
  return options == nullptr ? OptionList{} : Collect(options, std::span(&no_prefix, 1), "");
}

}  // namespace cudaep::abi
