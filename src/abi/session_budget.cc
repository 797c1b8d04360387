#include "abi/session_budget.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "abi/api_version.h"

namespace cudaep::abi {
namespace {

// Of providers, to a host with budgets by name.
constexpr std::string_view kEnforcedName = "CUDAExecutionProvider";

}  // namespace

Result<std::optional<graph::BudgetSetting>> ReadBudgetSetting(const OrtSessionOptions* options,
                                                              std::string_view ep_name) {
  OrtKeyValuePairs* raw = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetSessionOptionsConfigEntries(options, &raw));
  const UniqueKeyValuePairs pairs(raw);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  Host().ort->GetKeyValuePairs(pairs.get(), &keys, &values, &count);
  std::string_view text;
  for (size_t i = 0; i < count; ++i) {
    if (std::string_view(keys[i]) == graph::kBudgetKey) text = values[i];
  }
  if (text.empty()) return std::optional<graph::BudgetSetting>();  // as the hosts take it
  CUDAEP_ASSIGN_OR_RETURN(graph::BudgetSetting setting, graph::ParseBudgetSetting(text));
  if (Host().version < kApiBudgetWithoutStats && setting.stats_file.empty()) {
    return NotSupported("session entry ", graph::kBudgetKey, "='", text, "': ONNX Runtime ", Host().version_text,
                        " takes a budget only with a stats file, as 'KB,FILE'");
  }
  const bool enforces = Host().budgets_by_name ? ep_name == kEnforcedName : Host().version >= kApiBudgets;
  setting.host_counts = enforces && setting.stats_file.empty();
  return std::optional(std::move(setting));
}

Result<graph::NodeStats> ReadNodeStats(const OrtGraph* graph, const std::string& file) {
  if (file.empty()) return graph::NodeStats();
  const ORTCHAR_T* model = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Graph_GetModelPath(graph, &model));
  const auto path = std::filesystem::path(model == nullptr ? "" : model).parent_path() / file;
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    return InvalidArgument("session entry ", graph::kBudgetKey, ": cannot read the stats file ", path.string(), ": ",
                           std::strerror(errno),
                           "; accepted: a file beside the model that session.collect_node_memory_stats_to_file wrote");
  }
  return graph::NodeStats::Parse(text.str(), path.string());
}

}  // namespace cudaep::abi
