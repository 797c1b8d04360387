#include "graph/capture_check.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "core/strings.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr std::string_view kControlFlow[] = {"If", "Loop", "Scan"};
constexpr std::string_view kShapeReaders[] = {"Shape", "Size"};  // of a value they read no contents

bool IsStandard(const NodeReport& node, std::span<const std::string_view> names) {
  return (node.domain.empty() || node.domain == "ai.onnx") &&
         std::find(names.begin(), names.end(), node.op_type) != names.end();
}

class CaptureChecker {
 public:
  CaptureChecker(const PlacementGraph& graph, const GraphReport& report) : graph_(graph), report_(report) {}

  Status Check() const {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const bool runs_graphs = IsStandard(report_.nodes[n], kControlFlow) && report_.nodes[n].region < 0;
      if (runs_graphs) return Refuse(n, "is control flow, which the host runs");
      if (report_.nodes[n].domain == ops::kOwnDomain) return Refuse(n, "works with other ranks, which replay nothing");
      for (const PlacementUse& use : graph_.nodes[n].inputs) {
        if (use.value >= 0) CUDAEP_RETURN_IF_ERROR(CheckUse(n, use));
      }
    }
    return Status::Ok();
  }

 private:
  bool IsEvaluated(size_t node) const { return report_.nodes[node].home == NodeHome::kEvaluated; }
  // Regions read their inputs on the device.
  bool IsOurs(size_t node) const { return report_.nodes[node].home == NodeHome::kOurs || IsEvaluated(node); }

  Status CheckUse(size_t n, const PlacementUse& use) const {
    const PlacementValue& value = graph_.values[static_cast<size_t>(use.value)];
    if (value.constant) return Status::Ok();
    const bool on_host = !IsOurs(n) || use.host_input;
    if (value.producer < 0) {
      if (!on_host || (!IsOurs(n) && IsStandard(report_.nodes[n], kShapeReaders))) return Status::Ok();
      return Refuse(n, StrCat("reads the graph's input '", value.name,
                              "' in host memory, where replays do not see new contents"));
    }
    const auto producer = static_cast<size_t>(value.producer);
    if (IsEvaluated(producer)) return Status::Ok();  // inside the region, from dimensions alone
    const bool made_on_host = !IsOurs(producer) || value.host_output;
    if (made_on_host == on_host) return Status::Ok();
    return Refuse(n, StrCat("reads '", value.name, "' in ", on_host ? "host" : "device", " memory, and ",
                            Label(report_.nodes[producer]), Home(producer), " makes it in ",
                            on_host ? "device" : "host", " memory: a copy between host and device"));
  }

  std::string Home(size_t node) const {
    if (IsOurs(node)) return "";
    const std::string& reason = report_.nodes[node].reason;
    return reason.empty() ? " (on the CPU)" : StrCat(" (on the CPU: ", reason, ")");
  }

  Status Refuse(size_t node, std::string_view why) const {
    return NotSupported("provider option enable_cuda_graph='1': the model cannot be captured into a CUDA graph: ",
                        Label(report_.nodes[node]), Home(node), " ", why);
  }

  const PlacementGraph& graph_;
  const GraphReport& report_;
};

}  // namespace

Status CheckCapturable(const PlacementGraph& graph, const GraphReport& report) {
  return CaptureChecker(graph, report).Check();
}

}  // namespace cudaep::graph
