#include "runtime/ignored_options.h"

#include <algorithm>
#include <atomic>

#include "core/log.h"
#include "runtime/option_parsing.h"

namespace cudaep {
namespace {

using option_parsing::IgnoreBool;
using option_parsing::kBool;
using option_parsing::kNumber;
using option_parsing::ParseInt;
using option_parsing::SetBool;

constexpr OptionKind kIgnored = OptionKind::kIgnored;

bool IgnoreNumber(Settings&, std::string_view value) {
  uint32_t number = 0;
  return ParseInt(value, &number) && number <= INT32_MAX;
}

bool IgnoreLength(Settings&, std::string_view value) {
  int64_t length = 0;
  return ParseInt(value, &length) && length >= 0;
}

// A switch; a sum of bits in older versions of upstream.
bool IgnoreSwitchOrBits(Settings& settings, std::string_view value) {
  return value == "on" || value == "off" || IgnoreNumber(settings, value);
}

bool IgnoreNumbers(Settings& settings, std::string_view value) {
  for (;;) {
    const size_t end = std::min(value.find(','), value.size());
    std::string_view number = value.substr(0, end);
    number.remove_prefix(std::min(number.find_first_not_of(' '), number.size()));
    number = number.substr(0, number.find_last_not_of(' ') + 1);
    if (!IgnoreNumber(settings, number)) return false;
    if (end == value.size()) return true;
    value.remove_prefix(end + 1);
  }
}

bool IgnorePath(Settings&, std::string_view value) { return !value.empty(); }

constexpr OptionRow kTable[] = {
    {"fuse_conv_bias", kBool, "0", "the bias of a convolution is fused either way", IgnoreBool, nullptr, kIgnored},
    {"enable_skip_layer_norm_strict_mode", kBool, "0", "sums are in fp32 either way",
     SetBool<&Settings::strict_skip_layer_norm>, nullptr, kIgnored},
    {"enable_gemm_auto_tune", kBool, "", "of kernels that only upstream has; here: tunable_op_enable", IgnoreBool,
     nullptr, kIgnored},
    {"fpa_intb_gemm", "0, 1, off, on, or a number", "",
     "chooses upstream's kernels of MatMulNBits; one path serves all here", IgnoreSwitchOrBits, nullptr, kIgnored},
    {"fpa_intb_profile_m", "numbers with commas between", "", "rows for which upstream times those kernels",
     IgnoreNumbers, nullptr, kIgnored},
    {"gemm_tactic_cache_prefix", "a file's path", "",
     "how the names of upstream's files of timed kernels begin; here: plan_cache.path", IgnorePath, nullptr, kIgnored},
    {"gemm_tactic_cache_dir", "a file's path", "", "the folder of the same files", IgnorePath, nullptr, kIgnored},
    {"matmul_nbits_m_chunk_size", kNumber, "", "rows that upstream's MatMulNBits takes at a time", IgnoreNumber,
     nullptr, kIgnored},
    {"gqa_workspace_max_total_sequence_length", "a number, 0 to 9223372036854775807", "",
     "for which upstream plans the scratch memory of GroupQueryAttention", IgnoreLength, nullptr, kIgnored},
};

}  // namespace

std::span<const OptionRow> IgnoredOptions() { return kTable; }

void WarnOfIgnoredOptions(const OptionList& options) {
  static constinit std::atomic<bool> warned[std::size(kTable)];
  for (const auto& [name, value] : options) {
    const auto* const row = std::ranges::find(kTable, name, &OptionRow::name);
    if (row == std::end(kTable) || warned[row - kTable].exchange(true, std::memory_order_relaxed)) continue;
    Log(LogLevel::kWarning, "provider option ", name, "='", value, "' is accepted, without effect here: ", row->doc);
  }
}

}  // namespace cudaep
