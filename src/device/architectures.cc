#include "device/architectures.h"

#include <charconv>

namespace cudaep::device {
namespace {

bool OneRunsOn(std::string_view word, int major, int minor) {
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc()) return true;
  word.remove_prefix(static_cast<size_t>(end - word.data()));
  const bool exact = word.starts_with('a');
  const bool family = word.starts_with('f');
  if (exact || family) word.remove_prefix(1);
  const int code_major = number / 10, code_minor = number % 10;
  if (exact) return major == code_major && minor == code_minor;
  if (major == code_major && minor >= code_minor) return true;
  const bool has_ptx = word != "-real";
  return has_ptx && !family && major > code_major;
}

}  // namespace

bool RunsOn(std::string_view architectures, int major, int minor) {
  while (!architectures.empty()) {
    const size_t end = architectures.find(';');
    if (const auto word = architectures.substr(0, end); !word.empty() && OneRunsOn(word, major, minor)) return true;
    architectures = end == std::string_view::npos ? "" : architectures.substr(end + 1);
  }
  return false;
}

}  // namespace cudaep::device
