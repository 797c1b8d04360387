// What compile_budget.py compiles to learn how fast this machine's compilers are. It is never run. A change here makes
// every limit in compile_budget.toml meaningless: write them anew.
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#ifdef __CUDACC__
#define CALIBRATION_KERNEL __global__
#else
#define CALIBRATION_KERNEL
#endif

template <class T, int kRounds>
CALIBRATION_KERNEL void Rounds(T* data, int count) {
  for (int i = 0; i < count; ++i) {
    T value = data[i];
#pragma unroll
    for (int round = 0; round < kRounds; ++round) value = value * T(round) + (value > T(3) ? data[round] : T(1)) / T(7);
    data[i] = value;
  }
}
template CALIBRATION_KERNEL void Rounds<float, 40>(float*, int);
template CALIBRATION_KERNEL void Rounds<double, 40>(double*, int);
template CALIBRATION_KERNEL void Rounds<int, 40>(int*, int);
template CALIBRATION_KERNEL void Rounds<long, 40>(long*, int);

bool Matches(const std::map<std::string, std::vector<int>>& table, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [name, values] : table) names.insert(names.end(), values.size(), name);
  std::sort(names.begin(), names.end());
  return std::regex_match(text, std::regex(names.empty() ? "none" : names.front()));
}
