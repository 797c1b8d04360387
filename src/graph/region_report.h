// What became of a compiled region, for people and for tools.
#pragma once

#include <string>
#include <vector>

#include "graph/pass/pass.h"

namespace cudaep::graph {

struct RegionReport {
  // What runs in place of the model's nodes.
  struct Step {
    std::string op_type, domain;
    bool on_host = false;              // evaluated once for each set of input dimensions
    std::vector<std::string> sources;  // the model's nodes
    bool once = false;                 // the same on the device (graph/pass/once.h)
  };
  std::vector<Step> steps;
  std::vector<FusionNote> notes;
};

// Of a region's graph after its passes, which gave these notes.
RegionReport ReportOf(const ir::Graph& region, std::vector<FusionNote> notes);

// A JSON object of name, nodes and, of what was nearly done, the reason.
std::string TextOf(const FusionNote& note);

// Fields of a JSON object: steps[] of op_type, domain, on_host, once, nodes; rewritten[] and missed[] of name, nodes
// and, of the latter, the reason.
std::string FieldsOf(const RegionReport& region);

}  // namespace cudaep::graph
