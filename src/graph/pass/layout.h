// Where the dimensions of an image lie: [batch, channels, spatial...], as models have them, or with the channels last.
#pragma once

#include "graph/ir/graph.h"

namespace cudaep::graph {

// Orders of dimensions as Transpose has them, for images of `rank` dimensions.
std::vector<int64_t> OrderToLast(int rank);
std::vector<int64_t> OrderToFirst(int rank);

// Where dimension `axis` of [0, rank) lies once the channels are last.
int64_t AxisInLast(int64_t axis, int rank);

template <class T>
std::vector<T> Ordered(const std::vector<T>& values, const std::vector<int64_t>& order) {
  std::vector<T> ordered;
  ordered.reserve(order.size());
  for (const int64_t from : order) ordered.push_back(values[static_cast<size_t>(from)]);
  return ordered;
}

// Whether the image has one pixel, so that both layouts are the same memory.
bool IsOnePixel(const ir::Value& image);

// A value for the image with its channels last.
int AddInLast(ir::Graph& graph, int image);

// What makes one layout of the other, `from` of `to`.
ir::Node LayoutChange(ir::Graph& graph, int from, int to, bool to_last);

int AddInts(ir::Graph& graph, const std::string& name, const std::vector<int64_t>& values);

// A node of shape arithmetic: `result` are elements `order` of the vector `values`.
ir::Node PickOnHost(ir::Graph& graph, int values, const std::vector<int64_t>& order, int result);

}  // namespace cudaep::graph
