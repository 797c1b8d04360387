// Values and nodes of the host's graphs as those of our own.
//
// Constants are views of the host's memory. Threads: one at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "abi/host.h"
#include "abi/node_info.h"
#include "graph/ir/graph.h"

namespace cudaep::abi {

class IrReader {
 public:
  explicit IrReader(const Settings& settings) : settings_(settings) {}

  graph::ir::Graph graph;
  // Values that have been read, by name. Whoever reads the graphs inside a node sees to what is known where.
  std::map<std::string, int> names;
  // Constants of graphs inside nodes, which others may have by the same name: no initializers.
  std::set<std::string> inner_constants;

  // The value of that name; -1 where it is absent.
  Result<int> ValueOf(const OrtValueInfo* info);
  Result<std::vector<int>> ValuesOf(const std::vector<const OrtValueInfo*>& infos);

  // Without what is inside it. Not yet a node of `graph`.
  Result<graph::ir::Node> Read(const NodeInfo& info);
  const Settings& settings() const { return settings_; }

 private:
  std::string LabelOf(const graph::ir::Node& node) const;

  const Settings& settings_;
};

}  // namespace cudaep::abi
