#include "runtime/graph_options.h"

#include "device/device.h"
#include "runtime/option_parsing.h"

namespace cudaep {
namespace {

using option_parsing::kBool;
using option_parsing::ParseInt;
using option_parsing::SetBool;

// The host runs a model eight times at most until it must be captured, the captured Run included.
constexpr int kMostWarmUpRuns = 7;
constexpr int kMostGraphs = 65536;

bool SetWarmUpRuns(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.graph_warm_up_runs) && settings.graph_warm_up_runs >= 1 &&
         settings.graph_warm_up_runs <= kMostWarmUpRuns;
}

bool SetMaxGraphs(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.max_graphs) && settings.max_graphs >= 1 && settings.max_graphs <= kMostGraphs;
}

constexpr OptionKind kUpstream = OptionKind::kUpstream;

constexpr OptionRow kTable[] = {
    {"enable_cuda_graph", kBool, "0",
     "1: Runs are captured into a CUDA graph for each gpu_graph_id, and replayed (docs/guides/cuda-graphs.md)",
     SetBool<&Settings::enable_cuda_graph>, nullptr, kUpstream},
    {"min_num_runs_before_cuda_graph_capture", "a number, 1 to 7", "1",
     "Runs of each gpu_graph_id before the one that is captured; the host makes them within one call", SetWarmUpRuns,
     nullptr, kUpstream},
    {"cuda_graph_max_count", "a number, 1 to 65536", "64", "how many graphs a session may hold", SetMaxGraphs, nullptr},
};

}  // namespace

std::span<const OptionRow> GraphOptions() { return kTable; }

Status CheckGraphOptions(const Settings& settings) {
  if (!settings.enable_cuda_graph || !settings.has_user_stream) return Status::Ok();
  if (settings.user_stream != nullptr && settings.user_stream != device::kLegacyStream) return Status::Ok();
  return InvalidArgument("provider options enable_cuda_graph='1' and user_compute_stream='", settings.user_stream,
                         "' contradict each other: the legacy default stream takes no part in CUDA graphs; give a "
                         "stream that was created");
}

}  // namespace cudaep
