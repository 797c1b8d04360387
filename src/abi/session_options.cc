#include "abi/session_options.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace cudaep::abi {

Result<OptionList> ReadSessionOptions(const OrtSessionOptions* options, const std::string& ep_name) {
  OrtKeyValuePairs* raw = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetSessionOptionsConfigEntries(options, &raw));
  const UniqueKeyValuePairs pairs(raw);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  Host().ort->GetKeyValuePairs(pairs.get(), &keys, &values, &count);

  std::string lower = ep_name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string prefixes[] = {StrCat("ep.", lower, "."), "ep.cuda."};
  OptionList list;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view key = keys[i];
    for (const std::string& prefix : prefixes) {
      if (!key.starts_with(prefix)) continue;
      std::string name(key.substr(prefix.size()));
      const auto given = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
      if (given == list.end()) {
        list.emplace_back(std::move(name), values[i]);
      } else if (given->second != values[i]) {
        return InvalidArgument("provider option ", name, " is '", given->second, "' under one prefix and '", values[i],
                               "' under another (", prefixes[0], " and ", prefixes[1], ")");
      }
      break;
    }
  }
  return list;
}

}  // namespace cudaep::abi
