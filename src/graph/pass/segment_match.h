// Loops that reduce segments of rows one after the other, as exporters write bags of embeddings.
//
// In every iteration i the body takes start and end from lists of positions, reduces the rows between them and gives
// the result as a row of its scan output, or of a sequence that somebody concatenates. torch.onnx writes
// nn.EmbeddingBag so: TorchScript with Gather(table, Slice(indices, start, end)) inside, torchlib with Slice(rows,
// start, end), zeros where start equals end, and the mean of the last segment by a rule of its own
// (SegmentLoop::counted). A pure function of the body.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace cudaep::graph {

// Ifs have three inputs: their condition, and what either branch gives, whose nodes stand before them. Values from
// around the Loop have no producer.
struct LoopBody {
  ir::Graph graph;         // with the body's own inputs and outputs
  std::vector<int> given;  // the Loop's inputs
};

// What the operator SegmentReduce of ops::kFusedDomain needs to know, by values from around the Loop; -1: none.
struct SegmentLoop {
  const char* reduction = "";  // sum, mean, max
  int rows = -1;               // [rows, width]
  int starts = -1;             // of each segment
  int ends = -1;               // absent: each segment ends where the next one starts
  int count = -1;              // of segments
  int condition = -1;          // false: none; true: one at least
  // The mean of the last segment is over what is behind its start in a list, or in one of this length; -1: it is not.
  int counted = -1;
  int64_t counted_elems = -1;
  int indices = -1;            // of the rows; segments are of these then
  int weights = -1;            // of the indices
  bool empty_is_zero = false;  // where start equals end, whatever the reduction
  bool gives_sequence = false;

  // Of the operator, in the order of ops::SegmentInput.
  std::vector<int> inputs() const;
  ops::Attributes attributes() const;
};

struct SegmentMatch {
  std::optional<SegmentLoop> loop = {};
  std::string missed = {};  // what differs in a Loop that is nearly one
};
SegmentMatch MatchSegments(const LoopBody& body);

}  // namespace cudaep::graph
