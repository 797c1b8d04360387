#include "runtime/options_table.h"

#include <algorithm>
#include <span>

#include "core/strings.h"
#include "device/device.h"
#include "runtime/collective_options.h"
#include "runtime/graph_options.h"
#include "runtime/ignored_options.h"
#include "runtime/memory_options.h"
#include "runtime/option_parsing.h"
#include "runtime/plan_file.h"
#include "runtime/stream_options.h"

namespace cudaep {
namespace {

using option_parsing::kBool;
using option_parsing::kNumber;
using option_parsing::ParseBool;
using option_parsing::ParseInt;
using option_parsing::SetBool;

bool SetDeviceId(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.device_ordinal) && settings.device_ordinal >= 0;
}

// An enumeration by the position of its name.
template <class Enum>
bool SetByName(Enum* out, std::span<const std::string_view> names, std::string_view value) {
  const auto found = std::find(names.begin(), names.end(), value);
  *out = static_cast<Enum>(found - names.begin());
  return found != names.end();
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

bool SetGemmPath(Settings& settings, std::string_view value) {
  constexpr std::string_view kNames[] = {"auto", "library", "own"};
  return SetByName(&settings.gemm_path, kNames, value);
}

bool SetConvPath(Settings& settings, std::string_view value) {
  constexpr std::string_view kNames[] = {"auto", "library", "columns", "depthwise", "channels_last"};
  return SetByName(&settings.conv_path, kNames, value);
}

bool SetMeasuringTime(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.most_measuring_ms) && settings.most_measuring_ms >= 0;
}

bool SetAttentionKernels(Settings& settings, std::string_view value) {
  constexpr int kCudnn = 8;
  int bits = 0;
  settings.attention_by_cudnn = ParseInt(value, &bits) && (bits == 0 || (bits & kCudnn) != 0);
  return ParseInt(value, &bits) && bits >= 0;
}

bool SetFusionSkip(Settings& settings, std::string_view value) {
  settings.fusion_skip = {};
  return settings.fusion_skip.AddNames(value);
}

bool SetNormPath(Settings& settings, std::string_view value) {
  constexpr std::string_view kNames[] = {"auto", "direct", "batch", "team", "ring", "long", "stream"};
  return SetByName(&settings.norm_path, kNames, value);
}

bool SetPlanFile(Settings& settings, std::string_view value) {
  settings.plan_cache_path = value;
  return true;
}

bool SetPlacementReport(Settings& settings, std::string_view value) {
  settings.placement_report = value;
  return !value.empty();
}

bool SetBudgetDynamicDim(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.budget_dynamic_dim) && settings.budget_dynamic_dim >= 0 &&
         settings.budget_dynamic_dim <= INT32_MAX;
}

constexpr OptionKind kUpstream = OptionKind::kUpstream;

constexpr OptionRow kGeneral[] = {
    {"device_id", "a CUDA ordinal, 0 or more", "0", "the GPU, as CUDA numbers them", SetDeviceId, nullptr, kUpstream},
    {"use_tf32", kBool, "1", "tensor cores for fp32 GEMM, convolution and attention", SetBool<&Settings::use_tf32>,
     nullptr, kUpstream},
    {"deterministic_compute", kBool, "0", "1: the same input gives the same bits in every Run, thread and process",
     SetBool<&Settings::deterministic>, nullptr},
    {"enable_cudnn", kBool, "1", "0 keeps cuDNN unused", SetBool<&Settings::enable_cudnn>, nullptr, kUpstream},
    {"cudnn_conv_algo_search", "EXHAUSTIVE, HEURISTIC, DEFAULT", "HEURISTIC",
     "how convolution plans are chosen; HEURISTIC: the library's first suggestion that fits the workspace, DEFAULT: "
     "its first one that needs none, EXHAUSTIVE: measured (docs/guides/tuning.md)",
     SetConvSearch, nullptr, kUpstream},
    {"cudnn_conv_use_max_workspace", kBool, "1", "0 keeps convolution workspaces below 32 MB",
     SetBool<&Settings::conv_use_max_workspace>, nullptr, kUpstream},
    {"compiled_engines", kBool, "1",
     "16-bit convolutions of few multiplications, convolutions with any activation, 16-bit attention and products of "
     "17 to 256 rows run by engines that cuDNN compiles in the background, where no kernel of our own is faster "
     "(docs/guides/tuning.md)",
     SetBool<&Settings::compiled_engines>, nullptr},
    {"cudnn_conv1d_pad_to_nc1d", kBool, "0", "run 1-D convolutions as [N,C,1,D]",
     SetBool<&Settings::conv1d_pad_to_nc1d>, nullptr, kUpstream},
    {"gemm_path", "auto, library, own", "auto", "what runs matrix products; impossible is an error", SetGemmPath,
     nullptr},
    {"conv_path", "auto, library, channels_last, columns, depthwise", "auto",
     "what runs convolutions; impossible is an error", SetConvPath, nullptr},
    {"norm_path", "auto, direct, batch, team, ring, long, stream", "auto",
     "the kernel of layer and RMS normalisation; impossible is an error", SetNormPath, nullptr},
    {"plan_cache.enable", kBool, "1", "0 keeps library plans in memory alone", SetBool<&Settings::plan_cache_enable>,
     nullptr},
    {"plan_cache.path", "a file's path", "",
     "where library plans are kept; by default a file of the user's cache folder on a GPU, and none on the simulated "
     "device",
     SetPlanFile, nullptr},
    {"require_all_compute_nodes", kBool, "0", "a compute node that is not ours fails the session, with the reason",
     SetBool<&Settings::require_all_compute_nodes>, nullptr},
    {"placement_report", "a file's path", "", "writes where each node goes and why there as JSON", SetPlacementReport,
     nullptr},
    {"budget_dynamic_dim", kNumber, "0",
     "what a dimension that the model leaves open counts as in a memory budget; 0: the node's cost is unknown",
     SetBudgetDynamicDim, nullptr},
    {"prefer_nhwc", kBool, "0",
     "convolutions and pools on channels-last tensors, which the host brings into that order",
     SetBool<&Settings::prefer_nhwc>, nullptr, kUpstream},
    {"compiled_regions", kBool, "1",
     "joins nodes to regions that the provider runs by itself, with one plan and one block of memory a region; "
     "without effect under prefer_nhwc=1",
     SetBool<&Settings::compiled_regions>, nullptr},
    {"region_graphs", kBool, "1",
     "launches a compiled region as one CUDA graph when it runs again on the same memory "
     "(docs/guides/compiled-regions.md)",
     SetBool<&Settings::region_graphs>, nullptr},
    {"fusion", kBool, "1", "rewrites compiled regions to fewer and faster operators", SetBool<&Settings::fusion>,
     nullptr},
    {"fusion_skip", kFusionNames, "", "rewritings that are left out, with commas between", SetFusionSkip, nullptr},
    {"sdpa_kernel", kNumber, "0",
     "attention kernels by upstream's bits: without 8 (cuDNN) among them own kernels alone; 0: the provider's choice",
     SetAttentionKernels, nullptr, kUpstream},
    {"tunable_op_enable", kBool, "0", "matrix products use plans that were measured, where there are such",
     SetBool<&Settings::measured_products>, nullptr, kUpstream},
    {"tunable_op_tuning_enable", kBool, "0", "measures plans of products that have none; needs tunable_op_enable=1",
     SetBool<&Settings::measure_products>, nullptr, kUpstream},
    {"tunable_op_max_tuning_duration_ms", kNumber, "0", "of measuring one product, about; 0: no limit",
     SetMeasuringTime, nullptr, kUpstream},
};

std::vector<OptionRow> AllRows() {
  std::vector<OptionRow> rows(std::begin(kGeneral), std::end(kGeneral));
  rows.insert(rows.end(), StreamOptions().begin(), StreamOptions().end());
  rows.insert(rows.end(), GraphOptions().begin(), GraphOptions().end());
  rows.insert(rows.end(), CollectiveOptions().begin(), CollectiveOptions().end());
  rows.insert(rows.end(), MemoryOptions().begin(), MemoryOptions().end());
  rows.insert(rows.end(), IgnoredOptions().begin(), IgnoredOptions().end());
  return rows;
}

const OptionRow* FindOption(std::string_view name) {
  const auto table = OptionTable();
  const auto row = std::find_if(table.begin(), table.end(), [&](const auto& r) { return name == r.name; });
  return row == table.end() ? nullptr : &*row;
}

std::string AllNames() {
  std::string names;
  for (const OptionRow& row : OptionTable()) names += names.empty() ? row.name : StrCat(", ", row.name);
  return names;
}

std::string PlanFileOf(const Settings& settings) {
  if (!settings.plan_cache_enable) return {};
  if (!settings.plan_cache_path.empty()) return settings.plan_cache_path;
  return std::string_view(device::BackendName()) == "simulated" ? std::string() : DefaultPlanFile();
}

bool IsOff(const OptionRow& row, std::string_view value) {
  bool flag = true;
  return value == row.only_value || (std::string_view(row.accepts) == kBool && ParseBool(value, &flag) && !flag);
}

}  // namespace

std::span<const OptionRow> OptionTable() {
  static const auto* const rows = new std::vector<OptionRow>(AllRows());
  return *rows;
}

Result<Settings> ParseOptions(const OptionList& options, const Settings& base) {
  Settings settings = base;
  for (const auto& [name, value] : options) {
    const OptionRow* row = FindOption(name);
    if (row == nullptr) return InvalidArgument("unknown provider option '", name, "'; known: ", AllNames());
    if (!row->set(settings, value)) {
      return InvalidArgument("provider option ", name, "='", value, "' is malformed; accepted: ", row->accepts);
    }
    if (row->only_value != nullptr && !IsOff(*row, value)) {
      return NotSupported("provider option ", name, "='", value,
                          "' is not offered by this version; accepted: ", row->only_value);
    }
  }
  CUDAEP_RETURN_IF_ERROR(CheckStreamOptions(options, settings));
  CUDAEP_RETURN_IF_ERROR(CheckGraphOptions(settings));
  CUDAEP_RETURN_IF_ERROR(CheckCollectiveOptions(settings));
  CUDAEP_RETURN_IF_ERROR(CheckMemoryOptions(options, settings));
  if (settings.measure_products && !settings.measured_products) {
    return InvalidArgument("provider option tunable_op_tuning_enable=1 needs tunable_op_enable=1");
  }
  settings.plan_file = PlanFileOf(settings);
  if (settings.memory.is_external()) settings.memory.external.caller_stream = settings.user_stream;
  return settings;
}

std::string DescribeOptions(const OptionList& options) {
  std::string text;
  for (const OptionRow& row : OptionTable()) {
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
