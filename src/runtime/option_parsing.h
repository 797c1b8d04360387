// Parsers and setters that the rows of the options table are made of. Private to the table's files.
//
// A parser takes the whole text or refuses it: no sign where none is meant, no blanks, no value that does not fit.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/options_table.h"

namespace cudaep::option_parsing {

inline constexpr const char* kBool = "0, 1, false, true";
inline constexpr const char* kNumber = "a number, 0 to 2147483647";
inline constexpr const char* kPointer = "an address, decimal or 0x-prefixed hexadecimal";

template <class T>
bool ParseInt(std::string_view text, T* out, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return false;
  *out = value;
  return true;
}

inline bool ParseBool(std::string_view text, bool* out) {
  const bool on = text == "1" || text == "true" || text == "True";
  if (!on && text != "0" && text != "false" && text != "False") return false;
  *out = on;
  return true;
}

inline bool ParsePointer(std::string_view text, void** out) {
  uintptr_t value = 0;
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (!(hex ? ParseInt(text.substr(2), &value, 16) : ParseInt(text, &value))) return false;
  *out = reinterpret_cast<void*>(value);
  return true;
}

template <bool Settings::*kMember>
bool SetBool(Settings& settings, std::string_view value) {
  return ParseBool(value, &(settings.*kMember));
}

// The last value given for `name`: the one in force.
inline std::optional<std::string_view> ValueOf(const OptionList& given, std::string_view name) {
  const auto found = std::find_if(given.rbegin(), given.rend(), [&](const auto& entry) { return entry.first == name; });
  if (found == given.rend()) return std::nullopt;
  return found->second;
}

// Whether a flag was given with this value; what is malformed is no flag.
inline bool IsFlag(const OptionList& given, std::string_view name, bool expected) {
  const auto value = ValueOf(given, name);
  bool flag = false;
  return value && ParseBool(*value, &flag) && flag == expected;
}

// The setter of an option that changes no setting; a malformed value is an error all the same.
inline bool IgnoreBool(Settings&, std::string_view value) {
  bool flag = false;
  return ParseBool(value, &flag);
}

}  // namespace cudaep::option_parsing
