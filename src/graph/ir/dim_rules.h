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
  // Whether hosts state wrong sizes for some of the operator's nodes (seen with ONNX Runtime 1.32): of what they state
  // only how many there are is kept.
  static bool Overrules(const Node& node);

  // Of an input; absent for one that is left out, too.
  const MaybeDims& Stated(const Node& node, size_t input) const;

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

  // Whether `part` is the first `whole` elements of a tensor: less of them broadcast to `whole` only if they are one.
  bool IsFirst(const Dim& part, const Dim& whole) const;
  Dim BroadcastDim(const Dim& a, const Dim& b) const;
  DimList BroadcastDims(const DimList& a, const DimList& b) const;
  MaybeDims Broadcast(const Node& node) const;
  MaybeDims Reshaped(const Node& node);
  MaybeDims Transposed(const Node& node) const;
  MaybeDims Expanded(const Node& node);
  MaybeDims Filled(const Node& node) const;
  // Of the first input and input `right`, also of com.microsoft's with transposed operands. The inner size is the same
  // in both: one that could not be told of the left operand is now.
  MaybeDims Product(const Node& node, size_t right);
  MaybeDims Gemm(const Node& node, size_t right) const;
  MaybeDims Contracted(const Node& node) const;  // by Einsum

  // Of an attribute, where the node has it, or of an input; none where they are not known.
  Elements GivenNumbers(const Node& node, const char* attribute, size_t input) const;
  static DimList DimsOf(const Elements& sizes);
  // Open where the node has none, or a negative one.
  static Dim SizeAttribute(const Node& node, const char* name, int64_t fallback = kUnknownDim);

  // Of operators with axes.
  // The axis of an attribute, counted from the front; -1: none that fits.
  static int64_t AxisOf(const Node& node, size_t rank, int64_t fallback);
  MaybeDims Gathered(const Node& node) const;
  MaybeDims GatheredAt(const Node& node) const;
  Dim AddDims(const Dim& a, const Dim& b);
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
  // Also of ArgMax and ArgMin.
  MaybeDims Reduced(const Node& node) const;
  MaybeDims Selected(const Node& node) const;
  MaybeDims Encoded(const Node& node) const;  // by OneHot

  // Of parts and repetitions.
  MaybeDims Split(const Node& node, size_t output) const;
  MaybeDims Tiled(const Node& node) const;
  // By numbers: on both sides of each axis, or of those that the node names.
  MaybeDims Padded(const Node& node);
  MaybeDims Flattened(const Node& node) const;
  MaybeDims Folded(const Node& node) const;  // pixels into channels, or these into pixels
  // Of attention with heads: ONNX's, and com.microsoft's of three products or of one.
  MaybeDims Attended(const Node& node, size_t output);
  MaybeDims AttendedByHeads(const Node& node, size_t output);
  MaybeDims AttendedPacked(const Node& node, size_t output) const;
  // Of networks with a state.
  MaybeDims Recurrent(const Node& node, size_t output) const;

  // Of convolutions and pools.
  // How many windows of `kernel` taps fit along a spatial axis; absent where that is not known.
  Dim WindowsOver(const Node& node, const Dim& size, size_t axis, size_t rank, int64_t kernel);
  // Of a pool, or of a convolution with the filters of input `filters`.
  MaybeDims Windowed(const Node& node, size_t filters = 0);
  MaybeDims Spread(const Node& node) const;   // by ConvTranspose: all but the pixels
  MaybeDims Resized(const Node& node) const;  // by whole numbers, or to sizes
  MaybeDims Aligned(const Node& node) const;  // by RoiAlign
  MaybeDims Pooled(const Node& node) const;   // to one element a channel

  Graph& graph_;
  std::vector<std::optional<Elements>> followed_;
  Symbols symbols_;
  std::map<std::string, std::string> wanted_;  // of the first elements of a tensor, by their symbol: how many
};

}  // namespace cudaep::graph::ir
