// Values and nodes of the host's graphs as those of our own.
//
// Constants are views of the host's memory. Threads: one at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "abi/host.h"
#include "abi/node_info.h"
#include "graph/ir/graph.h"

namespace cudaep::abi {

Result<std::vector<const OrtNode*>> NodesOf(const OrtGraph* graph);

class IrReader {
 public:
  // `is_inner`: of a graph inside a node, whose own constants have names that others may have too.
  explicit IrReader(const Settings& settings, bool is_inner = false) : settings_(settings), is_inner_(is_inner) {}

  graph::ir::Graph graph;
  // Values that have been read, by name. Whoever reads the graphs inside a node sees to what is known where.
  std::map<std::string, int> names;

  // The value of that name; -1 where it is absent.
  Result<int> ValueOf(const OrtValueInfo* info);
  Result<std::vector<int>> ValuesOf(const std::vector<const OrtValueInfo*>& infos);

  // Without what is inside it. Not yet a node of `graph`.
  Result<graph::ir::Node> Read(const NodeInfo& info);
  const Settings& settings() const { return settings_; }

 private:
  std::string LabelOf(const graph::ir::Node& node) const;

  const Settings& settings_;
  const bool is_inner_;
};

}  // namespace cudaep::abi
