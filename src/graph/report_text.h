// JSON for reports.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "core/strings.h"

namespace cudaep::graph {

std::string Quoted(std::string_view text);

// "key": "value"
inline std::string Field(std::string_view key, std::string_view value) {
  return StrCat(Quoted(key), ": ", Quoted(value));
}
inline std::string Number(std::string_view key, int64_t value) { return StrCat(Quoted(key), ": ", value); }
inline std::string Number(std::string_view key, uint64_t value) { return StrCat(Quoted(key), ": ", value); }

// The texts of `items` on one line.
template <class Items, class Text>
std::string Listed(const Items& items, Text text) {
  std::string out;
  for (const auto& item : items) out += StrCat(out.empty() ? "[" : ", ", text(item));
  return out.empty() ? "[]" : out + "]";
}

// The same, an item a line.
template <class Items, class Text>
std::string Array(const Items& items, Text text) {
  std::string out = "[";
  for (const auto& item : items) out += StrCat(out.size() == 1 ? "\n" : ",\n", text(item));
  return out + "]";
}

}  // namespace cudaep::graph
