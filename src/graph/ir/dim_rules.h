// What each operator says of its first output's dimensions.
#pragma once

#include "graph/ir/elements.h"

namespace cudaep::graph::ir {

using DimList = std::vector<Dim>;
using MaybeDims = std::optional<DimList>;

class DimRules {
 public:
  explicit DimRules(Graph& graph) : graph_(graph), followed_(graph.values.size()) {}

  // Absent where nothing is said.
  MaybeDims Of(const Node& node, size_t output);

  Symbols& symbols() { return symbols_; }
  // Of a value; null where they are not followed.
  const Elements* ElementsOf(int value) const {
    if (value < 0 || !followed_[static_cast<size_t>(value)]) return nullptr;
    return &*followed_[static_cast<size_t>(value)];
  }
  std::vector<std::optional<Elements>> TakeElements() { return std::move(followed_); }
  void Follow(int value, Elements elements) { followed_[static_cast<size_t>(value)] = std::move(elements); }

 private:
  // Of com.microsoft's operators, which the host's optimisers make.
  MaybeDims OfMicrosoft(const Node& node, size_t output);

  const MaybeDims& Stated(const Node& node, size_t input) const;

  // Whether `part` is the first `whole` elements of a tensor: less of them broadcast to `whole` only if they are one.
  bool IsFirst(const Dim& part, const Dim& whole) const;
  Dim BroadcastDim(const Dim& a, const Dim& b) const;
  DimList BroadcastDims(const DimList& a, const DimList& b) const;
  MaybeDims Broadcast(const Node& node) const;
  MaybeDims Reshaped(const Node& node);
  MaybeDims Transposed(const Node& node) const;
  MaybeDims Expanded(const Node& node);
  // Of MatMul, and of com.microsoft's with transposed operands. The inner size is the same in both: one that could not
  // be told of the left operand is now.
  MaybeDims Product(const Node& node);
  MaybeDims Gemm(const Node& node) const;

  // Of operators with axes.
  // The axis of an attribute, counted from the front; -1: none that fits.
  static int64_t AxisOf(const Node& node, size_t rank, int64_t fallback);
  MaybeDims Gathered(const Node& node) const;
  MaybeDims GatheredAt(const Node& node) const;
  // From 0 in steps of 1.
  MaybeDims Counted(const Node& node);
  // Of an input since version 13, of an attribute before; absent where they are not known.
  std::optional<std::vector<int64_t>> AxesOf(const Node& node, size_t input) const;
  MaybeDims Unsqueezed(const Node& node) const;
  MaybeDims Squeezed(const Node& node) const;
  MaybeDims Joined(const Node& node);
  MaybeDims Sliced(const Node& node);
  // Of the first elements, up to a symbol: that symbol, or all that there are.
  Dim SlicedDim(const Node& node, size_t i, const Dim& whole);
  // With dimensions of 1 in place of those that are reduced.
  MaybeDims Reduced(const Node& node) const;

  // Of parts and repetitions.
  MaybeDims Split(const Node& node, size_t output) const;
  MaybeDims Tiled(const Node& node) const;
  // By numbers: on both sides of each axis, or of those that the node names.
  MaybeDims Padded(const Node& node);
  MaybeDims Flattened(const Node& node) const;

  // Of convolutions and pools.
  // How many windows of `kernel` taps fit along a spatial axis; absent where that is not known.
  Dim WindowsOver(const Node& node, const Dim& size, size_t axis, size_t rank, int64_t kernel);
  MaybeDims Windowed(const Node& node);
  MaybeDims Resized(const Node& node) const;  // by whole numbers
  MaybeDims Pooled(const Node& node) const;   // to one element a channel

  Graph& graph_;
  std::vector<std::optional<Elements>> followed_;
  Symbols symbols_;
  std::map<std::string, std::string> wanted_;  // of the first elements of a tensor, by their symbol: how many
};

}  // namespace cudaep::graph::ir
