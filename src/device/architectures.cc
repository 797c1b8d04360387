#include "device/architectures.h"

#include <charconv>

namespace cudaep::device {
namespace {

constexpr int kOverlapMajor = 9;

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
  // Compiled for less than 9.0 kernels have no grid dependency wait and no clusters (__CUDA_ARCH__), while the host
  // uses both wherever the device is of 9.0 or later.
  if (major >= kOverlapMajor && code_major < kOverlapMajor) return false;
  return has_ptx && !family && major > code_major;
}

}  // namespace

bool RunsOn(std::string_view architectures, int major, int minor) {
  while (!architectures.empty()) {
    const size_t end = architectures.find(',');
    if (const auto word = architectures.substr(0, end); !word.empty() && OneRunsOn(word, major, minor)) return true;
    architectures = end == std::string_view::npos ? "" : architectures.substr(end + 1);
  }
  return false;
}

}  // namespace cudaep::device
