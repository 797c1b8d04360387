#include "graph/pass/layout.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/strings.h"

namespace cudaep::graph {

std::vector<int64_t> OrderToLast(int rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

std::vector<int64_t> OrderToFirst(int rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return order;
}

int64_t AxisInLast(int64_t axis, int rank) {
  if (axis == 0) return 0;
  return axis == 1 ? rank - 1 : axis - 1;
}

bool IsOnePixel(const ir::Value& image) {
  return std::all_of(image.dims->begin() + 2, image.dims->end(), [](const ir::Dim& dim) { return dim.size == 1; });
}

int AddInLast(ir::Graph& graph, int image) {
  const ir::Value& first = graph.value(image);
  const auto rank = static_cast<int>(first.dims->size());
  return graph.AddValue({.name = first.name, .type = first.type, .dims = Ordered(*first.dims, OrderToLast(rank))});
}

ir::Node LayoutChange(ir::Graph& graph, int from, int to, bool to_last) {
  const ir::Value& first = graph.value(to_last ? from : to);
  const auto rank = static_cast<int>(first.dims->size());
  const int64_t channels = (*first.dims)[1].size;
  ir::Node node{.op_type = "Transpose",
                .since_version = 13,
                .inputs = {from},
                .outputs = {to},
                .sources = {StrCat("layout of '", first.name, "'")}};
  if (!IsOnePixel(first) || channels == kUnknownDim) {
    node.attributes["perm"] = to_last ? OrderToLast(rank) : OrderToFirst(rank);
    return node;
  }
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims.front() = 0;  // as it is
  dims[to_last ? static_cast<size_t>(rank) - 1 : 1] = channels;
  node.op_type = "Reshape";
  node.inputs.push_back(AddInts(graph, first.name, dims));  // `first` is gone
  return node;
}

int AddInts(ir::Graph& graph, const std::string& name, const std::vector<int64_t>& values) {
  ops::HostTensor tensor{.type = DataType::kInt64, .dims = Shape{static_cast<int64_t>(values.size())}, .data = {}};
  tensor.data.resize(values.size() * sizeof(int64_t));
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return graph.AddConstant(name, std::move(tensor));
}

ir::Node PickOnHost(ir::Graph& graph, int values, const std::vector<int64_t>& order, int result) {
  const std::string name = graph.value(values).name;
  return {.op_type = "Gather",
          .since_version = 13,
          .inputs = {values, AddInts(graph, name, order)},
          .outputs = {result},
          .on_host = true,
          .sources = {StrCat("layout of '", name, "'")}};
}

}  // namespace cudaep::graph
