#include "abi/region_import.h"

#include "abi/host_graph.h"
#include "abi/ir_reader.h"
#include "abi/loop_body.h"
#include "core/strings.h"
#include "ops/registry.h"

namespace cudaep::abi {
namespace {

size_t Index(int index) { return static_cast<size_t>(index); }

class Importer {
 public:
  Importer(const RegionClaims& claims, const Settings& settings) : claims_(claims), reader_(settings) {}

  Result<graph::ir::Graph> Import(const OrtGraph* graph, const OrtNode* node) {
    graph::ir::Graph& made = reader_.graph;
    NodeInfo fused(node, reader_.settings());
    CUDAEP_RETURN_IF_ERROR(fused.Read());
    for (int i = 0; i < fused.input_count(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, reader_.ValueOf(fused.inputs()[Index(i)]));
      if (value < 0) return Internal("input ", i, " of the fused node has no name");
      made.value(value).input = i;
      made.inputs.push_back(value);
    }
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtNode*> nodes, NodesOf(graph));
    for (const OrtNode* member : nodes) CUDAEP_RETURN_IF_ERROR(AddNode(member));
    for (int i = 0; i < fused.output_count(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, reader_.ValueOf(fused.outputs()[Index(i)]));
      if (value < 0) return Internal("output ", i, " of the fused node has no name");
      made.value(value).output = i;
      made.outputs.push_back(value);
    }
    return std::move(made);
  }

 private:
  Status AddNode(const OrtNode* node) {
    NodeInfo info(node, reader_.settings());
    CUDAEP_RETURN_IF_ERROR(info.Read());
    CUDAEP_ASSIGN_OR_RETURN(graph::ir::Node made, reader_.Read(info));
    for (const int value : made.outputs) {
      made.on_host = made.on_host || (value >= 0 && claims_.IsEvaluated(reader_.graph.value(value).name));
    }
    if (made.Is("SequenceEmpty")) return Status::Ok();  // which Loops over segments begin with
    if (made.Is("Loop")) CUDAEP_RETURN_IF_ERROR(MakeSegments(node, &made));
    if (made.Is("ConcatFromSequence")) return EndSegments(made);
    reader_.graph.nodes.push_back(std::move(made));
    return Status::Ok();
  }

  // Loops that regions have are over segments (abi/segment_loops.h).
  Status MakeSegments(const OrtNode* node, graph::ir::Node* loop) {
    CUDAEP_ASSIGN_OR_RETURN(const graph::LoopBody body, ReadLoopBody(node, reader_.settings()));
    const graph::SegmentMatch match = graph::MatchSegments(body);
    if (!match.loop) return Internal(loop->sources.front(), " is in a region, and reduces no segments");
    loop->domain = ops::kFusedDomain;
    loop->op_type = "SegmentReduce";
    loop->since_version = 1;
    loop->attributes = match.loop->attributes();
    loop->inputs.clear();
    for (const int value : match.loop->inputs()) {
      CUDAEP_ASSIGN_OR_RETURN(const int known, KnownValue(body.graph, value));
      loop->inputs.push_back(known);
    }
    while (loop->inputs.back() < 0) loop->inputs.pop_back();
    loop->outputs.erase(loop->outputs.begin(), loop->outputs.end() - 1);  // the counter, which nobody reads
    StateDims(*loop);
    return Status::Ok();
  }

  Result<int> KnownValue(const graph::ir::Graph& body, int value) {
    if (value < 0) return -1;
    const graph::ir::Value& inside = body.value(value);
    // Names of constants inside a Loop are its own.
    if (inside.is_constant() && !inside.is_initializer) return reader_.graph.AddValue(inside);
    const auto found = reader_.names.find(inside.name);
    if (found != reader_.names.end()) return found->second;
    if (!inside.is_constant()) return Internal("'", inside.name, "' is read inside a Loop and unknown around it");
    return reader_.names[inside.name] = reader_.graph.AddValue(inside);
  }

  // Its rows are one tensor anyway.
  Status EndSegments(const graph::ir::Node& end) {
    for (graph::ir::Node& node : reader_.graph.nodes) {
      if (node.outputs != end.inputs) continue;
      node.outputs = end.outputs;
      node.sources.push_back(end.sources.front());
      StateDims(node);
      return Status::Ok();
    }
    return Internal(end.sources.front(), " is in a region without what makes its sequence");
  }

  // The host does not follow rows through a sequence.
  void StateDims(const graph::ir::Node& segments) {
    auto& made = reader_.graph.value(segments.outputs[0]).dims;
    const auto& rows = reader_.graph.value(segments.inputs[0]).dims;
    if (!made && rows) made = {graph::ir::Dim{}, rows->back()};
  }

  const RegionClaims& claims_;
  IrReader reader_;
};

}  // namespace

Result<graph::ir::Graph> ImportRegion(const OrtGraph* graph, const OrtNode* node, const RegionClaims& claims,
                                      const Settings& settings) {
  return Importer(claims, settings).Import(graph, node);
}

}  // namespace cudaep::abi
