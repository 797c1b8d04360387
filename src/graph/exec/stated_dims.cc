#include "graph/exec/stated_dims.h"

#include "core/strings.h"

namespace cudaep::graph {

std::vector<StatedDim> StatedDimsOf(const ir::Graph& graph) {
  std::vector<StatedDim> stated;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto& dims = graph.value(graph.inputs[i]).dims;
    for (size_t d = 0; dims && d < dims->size(); ++d) {
      if (!(*dims)[d].symbol.empty()) stated.push_back({(*dims)[d].symbol, i, static_cast<int>(d)});
    }
  }
  return stated;
}

Status ExplainByDims(Status error, const Program& program, ops::TensorViews inputs) {
  const auto size = [&](const StatedDim& dim) {
    const ops::TensorView& input = inputs[dim.input];
    return dim.axis < input.rank ? input.dim[dim.axis] : kUnknownDim;
  };
  const auto name = [&](const StatedDim& dim) {
    return program.values[static_cast<size_t>(program.inputs[dim.input])].name;
  };
  for (const StatedDim& a : program.stated_dims) {
    for (const StatedDim& b : program.stated_dims) {
      if (&a >= &b || a.name != b.name || size(a) == size(b)) continue;
      return {error.code(), StrCat(error.message(), "; the model calls dimension ", a.axis, " of '", name(a), "' and ",
                                   b.axis, " of '", name(b), "' both '", a.name, "', and they are ", size(a), " and ",
                                   size(b), ": fusion=0 does without what follows from names")};
    }
  }
  return error;
}

}  // namespace cudaep::graph
