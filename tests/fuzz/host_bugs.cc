#include "host_bugs.h"

#include <algorithm>

namespace cudaep::fuzz {
namespace {

const Attribute* Find(const Node& node, const char* name) {
  const auto found = std::find_if(node.attributes.begin(), node.attributes.end(),
                                  [&](const Attribute& attribute) { return attribute.name == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}
const int64_t* FindInteger(const Node& node, const char* name) {
  const Attribute* const found = Find(node, name);
  return found == nullptr || found->kind != kInt ? nullptr : &found->integer;
}

// -1 where the model does not say.
int64_t RankOf(const Model& model, const std::string& name) {
  for (const Tensor& tensor : model.initializers) {
    if (tensor.name == name) return static_cast<int64_t>(tensor.dims.size());
  }
  for (const auto* list : {&model.inputs, &model.values}) {
    for (const ValueInfo& value : *list) {
      if (value.name == name && value.shape) return static_cast<int64_t>(value.shape->size());
    }
  }
  return -1;
}

const char* BugOf(const Model& model, const Node& node) {
  const int64_t* blocks = FindInteger(node, "blocksize");
  if ((node.op == "DepthToSpace" || node.op == "SpaceToDepth") && blocks != nullptr &&
      (*blocks > INT32_MAX || *blocks < INT32_MIN)) {
    return "shape inference divides by the block size squared, which overflows to 0 (1.31.1)";
  }
  const int64_t* parts = FindInteger(node, "num_outputs");
  if (node.op == "Split" && parts != nullptr && *parts != static_cast<int64_t>(node.outputs.size())) {
    return "Split indexes num_outputs sizes by its outputs (1.31.1)";
  }
  const int64_t rank = node.inputs.size() > 1 ? RankOf(model, node.inputs[1]) : -1;
  if (node.op == "ConvTranspose" && rank >= 0 && rank < 3) {
    return "shape inference reads the weight's third dimension (1.24.4)";
  }
  const bool variadic = node.op == "Max" || node.op == "Min" || node.op == "Sum" || node.op == "Mean";
  if (variadic && std::find(node.inputs.begin(), node.inputs.end(), "") != node.inputs.end()) {
    return "operators of any number of inputs read one that is left out (1.31.1)";
  }
  const int64_t* batch = FindInteger(node, "batch_dims");
  if (node.op == "GatherND" && batch != nullptr && *batch < 0) {
    return "GatherND indexes dimensions by a negative batch_dims (1.31.1)";
  }
  const Attribute* const equation = Find(node, "equation");
  constexpr const char* kOfEquations = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,-> ";
  if (node.op == "Einsum" && equation != nullptr &&
      equation->text.find_first_not_of(kOfEquations) != std::string::npos) {
    return "shape inference goes round for ever where an equation has another character than letters (1.32.0)";
  }
  const int64_t* groups = FindInteger(node, "kv_num_heads");
  if (node.op == "GroupQueryAttention" && groups != nullptr && static_cast<int32_t>(*groups) == 0) {
    return "GroupQueryAttention divides by kv_num_heads in 32 bits (1.31.1)";
  }
  return nullptr;
}

}  // namespace

const char* KnownHostBug(const Model& model) {
  for (const Node& node : model.nodes) {
    if (const char* bug = BugOf(model, node)) return bug;
  }
  return nullptr;
}

}  // namespace cudaep::fuzz
