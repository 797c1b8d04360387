// Text assembly for messages: concatenation of strings and numbers without streams or locales.
//
// Used on error and log paths only; nothing here is called while a node runs without failing.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace cudaep {

inline void AppendText(std::string& out, std::string_view text) { out.append(text); }
inline void AppendText(std::string& out, const char* text) { out.append(text != nullptr ? text : "(null)"); }
inline void AppendText(std::string& out, bool value) { out.append(value ? "true" : "false"); }
inline void AppendText(std::string& out, char value) { out.push_back(value); }

template <std::integral T>
void AppendText(std::string& out, T value) {
  out.append(std::to_string(value));
}

// Pointers print as 0x-prefixed hexadecimal.
inline void AppendText(std::string& out, const void* pointer) {
  char text[24];
  std::snprintf(text, sizeof(text), "%p", pointer);
  out.append(text);
}

template <std::floating_point T>
void AppendText(std::string& out, T value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  out.append(text);
}

// Dimensions print as [2,3,4].
inline void AppendText(std::string& out, std::span<const int64_t> dims) {
  out.push_back('[');
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != 0) out.push_back(',');
    out.append(std::to_string(dims[i]));
  }
  out.push_back(']');
}

// Concatenates its arguments: text, numbers, pointers and spans of dimensions.
template <class... Args>
std::string StrCat(const Args&... args) {
  std::string out;
  (AppendText(out, args), ...);
  return out;
}

}  // namespace cudaep
