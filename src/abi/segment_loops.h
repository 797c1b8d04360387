// Loops over segments (graph/pass/segment_match.h) among the nodes of a host graph, for compiled regions to run as one
// operator each. The host has no way for a plug-in to make sequences, and runs a Loop step by step; inside of a region
// there is neither.
//
// Threads: the host partitions the graphs of a session on one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "abi/graph_view.h"
#include "abi/region_claims.h"
#include "graph/pass/pass.h"
#include "graph/pass/segment_match.h"

namespace cudaep::abi {

class SegmentLoops {
 public:
  using Readers = std::vector<std::vector<int>>;  // nodes, of each value

  // Claims in `view` for regions alone each such Loop and, where it gives a sequence, the SequenceEmpty that it begins
  // with and the ConcatFromSequence behind it. Notes what is nearly one. False: there is none.
  bool Claim(const Settings& settings, GraphView* view);
  // Gives back what none of these regions has as a whole, and Loops to whose region an older host would not give what
  // they alone read. True: there was some, and regions are to be found anew.
  bool GiveBack(const std::vector<RegionClaims::Region>& regions, GraphView* view);
  // Of what is left nothing inside is reported any more.
  void Report(const GraphView& view, graph::PlacementReport* report) const;

  const std::vector<graph::FusionNote>& missed() const { return missed_; }

 private:
  struct Found {
    int loop;  // nodes; the latter two of one that gives a sequence
    bool gives_sequence;
    int begin = -1, end = -1;
    std::vector<std::string> inputs;  // names of what SegmentReduce reads; empty: none
  };
  struct Before {  // of a node, without the claim
    graph::PlacementNode placed;
    RegionFacts facts;
    graph::NodeReport report;
  };
  std::string FindEnds(const Settings& settings, const GraphView& view, const Readers& readers, Found* found) const;
  void ClaimLoop(const Found& found, GraphView* view);
  void ClaimNode(int node, GraphView* view);
  bool IsFed(const Found& found, const std::vector<int>& region, const GraphView& view) const;
  void Restore(int node, GraphView* view);
  void Miss(const GraphView& view, int loop, std::string why);

  std::vector<Found> claimed_;
  std::map<int, Before> before_;  // by node
  std::vector<graph::FusionNote> missed_;
};

}  // namespace cudaep::abi
