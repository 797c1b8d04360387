#include "runtime/options_table.h"

#include <algorithm>
#include <charconv>

namespace cudaep {
namespace {

template <class T>
bool ParseInt(std::string_view text, T* out, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return false;
  *out = value;
  return true;
}

bool ParseBool(std::string_view text, bool* out) {
  if (text == "1" || text == "true" || text == "True") {
    *out = true;
  } else if (text == "0" || text == "false" || text == "False") {
    *out = false;
  } else {
    return false;
  }
  return true;
}

bool ParsePointer(std::string_view text, void** out) {
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

bool Ignore(Settings&, std::string_view) { return true; }

bool SetDeviceId(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.device_ordinal) && settings.device_ordinal >= 0;
}

bool SetUserStream(Settings& settings, std::string_view value) {
  // A stream of 0 is the legacy default stream, so the pointer alone cannot say whether one was given.
  settings.has_user_stream = true;
  return ParsePointer(value, &settings.user_stream);
}

bool SetMemoryLimit(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.memory_limit_bytes) && settings.memory_limit_bytes > 0;
}

bool SetConvSearch(Settings& settings, std::string_view value) {
  if (value == "HEURISTIC") {
    settings.conv_search = ConvSearch::kHeuristic;
  } else if (value == "EXHAUSTIVE") {
    settings.conv_search = ConvSearch::kExhaustive;
  } else if (value == "DEFAULT") {
    settings.conv_search = ConvSearch::kDefault;
  } else {
    return false;
  }
  return true;
}

constexpr const char* kBool = "0, 1, false, true";
constexpr const char* kPointer = "an address, decimal or 0x-prefixed hexadecimal";

constexpr OptionRow kTable[] = {
    {"device_id", "a CUDA ordinal, 0 or more", "0", "the GPU, as CUDA numbers them", SetDeviceId, nullptr},
    {"user_compute_stream", kPointer, "none", "stream of the caller that all work is queued on", SetUserStream,
     nullptr},
    {"has_user_compute_stream", kBool, "0", "confirms that user_compute_stream is set", Ignore, nullptr},
    {"gpu_mem_limit", "bytes, 1 or more", "none", "most device memory the provider takes", SetMemoryLimit, nullptr},
    {"use_tf32", kBool, "1", "tensor cores for fp32 GEMM, convolution and attention", SetBool<&Settings::use_tf32>,
     nullptr},
    {"enable_cudnn", kBool, "1", "0 keeps cuDNN unused", SetBool<&Settings::enable_cudnn>, nullptr},
    {"cudnn_conv_algo_search", "EXHAUSTIVE, HEURISTIC, DEFAULT", "HEURISTIC", "how convolution plans are chosen",
     SetConvSearch, nullptr},
    {"cudnn_conv_use_max_workspace", kBool, "1", "0 keeps convolution workspaces below 32 MB",
     SetBool<&Settings::conv_use_max_workspace>, nullptr},
    {"cudnn_conv1d_pad_to_nc1d", kBool, "0", "run 1-D convolutions as [N,C,1,D]",
     SetBool<&Settings::conv1d_pad_to_nc1d>, nullptr},
    {"do_copy_in_default_stream", kBool, "1", "copies share the compute stream",
     SetBool<&Settings::copy_in_default_stream>, nullptr},
    {"use_ep_level_unified_stream", kBool, "0", "one stream for the whole provider", SetBool<&Settings::unified_stream>,
     nullptr},
    {"enable_skip_layer_norm_strict_mode", kBool, "0", "accepted; sums are in fp32 either way",
     SetBool<&Settings::strict_skip_layer_norm>, nullptr},
    {"prefer_nhwc", kBool, "0", "channels-last convolution", SetBool<&Settings::prefer_nhwc>, "0"},
    {"arena_extend_strategy", "kNextPowerOfTwo, kSameAsRequested", "kNextPowerOfTwo",
     "how the arena grows; accepted, the arena is not there yet", Ignore, nullptr},
    {"enable_cuda_graph", kBool, "0", "capture and replay through the host", Ignore, "0"},
    {"min_num_runs_before_cuda_graph_capture", "a number", "1", "accepted; graphs are not offered yet", Ignore,
     nullptr},
    {"fuse_conv_bias", kBool, "0", "accepted; the bias is always fused", Ignore, nullptr},
    {"sdpa_kernel", "a number", "0", "accepted; no attention kernels yet", Ignore, nullptr},
    {"tunable_op_enable", kBool, "0", "run-time tuning of kernels", Ignore, "0"},
    {"tunable_op_tuning_enable", kBool, "0", "run-time tuning of kernels", Ignore, "0"},
    {"tunable_op_max_tuning_duration_ms", "a number", "0", "accepted; tuning is not offered yet", Ignore, nullptr},
    {"gpu_external_alloc", kPointer, "0", "allocation callback", Ignore, "0"},
    {"gpu_external_free", kPointer, "0", "release callback", Ignore, "0"},
    {"gpu_external_empty_cache", kPointer, "0", "cache release callback", Ignore, "0"},
    {"enable_gemm_auto_tune", "any", "", "accepted; belongs to another provider", Ignore, nullptr},
    {"fpa_intb_gemm", "any", "", "accepted; belongs to another provider", Ignore, nullptr},
    {"matmul_nbits_m_chunk_size", "any", "", "accepted; belongs to another provider", Ignore, nullptr},
};

const OptionRow* FindOption(std::string_view name) {
  const auto* row = std::find_if(std::begin(kTable), std::end(kTable), [&](const auto& r) { return name == r.name; });
  return row == std::end(kTable) ? nullptr : row;
}

std::string AllNames() {
  std::string names;
  for (const OptionRow& row : kTable) names += names.empty() ? row.name : StrCat(", ", row.name);
  return names;
}

bool IsOff(const OptionRow& row, std::string_view value) {
  bool flag = true;
  return value == row.only_value || (ParseBool(value, &flag) && !flag);
}

}  // namespace

std::span<const OptionRow> OptionTable() { return kTable; }

Result<Settings> ParseOptions(const OptionList& options) {
  Settings settings;
  bool claims_user_stream = false;
  for (const auto& [name, value] : options) {
    const OptionRow* row = FindOption(name);
    if (row == nullptr) return InvalidArgument("unknown provider option '", name, "'; known: ", AllNames());
    if (!row->set(settings, value)) {
      return InvalidArgument("provider option ", name, "='", value, "' is malformed; accepted: ", row->accepts);
    }
    if (std::string_view(row->accepts) == kBool) {
      bool flag = false;
      if (!ParseBool(value, &flag)) {
        return InvalidArgument("provider option ", name, "='", value, "' is malformed; accepted: ", row->accepts);
      }
      if (name == "has_user_compute_stream") claims_user_stream = flag;
    }
    if (row->only_value != nullptr && !IsOff(*row, value)) {
      return NotSupported("provider option ", name, "='", value, "' is not offered by this version; only ",
                          row->only_value);
    }
  }
  if (claims_user_stream && !settings.has_user_stream) {
    return InvalidArgument("provider option has_user_compute_stream is set, but user_compute_stream is not");
  }
  return settings;
}

std::string DescribeOptions(const OptionList& options) {
  std::string text;
  for (const OptionRow& row : kTable) {
    std::string_view value = row.default_value;
    for (const auto& [name, given] : options) {
      if (name == row.name) value = given;
    }
    if (value.empty()) continue;
    text += StrCat(text.empty() ? "" : " ", row.name, "=", value);
  }
  return text;
}

}  // namespace cudaep
