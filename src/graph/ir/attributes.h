// Attributes of a graph's nodes.
#pragma once

#include "graph/ir/graph.h"

namespace cudaep::graph::ir {

// Null: the node has none of the name and type.
template <class T>
const T* FindAttribute(const Node& node, const char* name) {
  const auto found = node.attributes.find(std::string_view(name));
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}
template <class T>
T AttributeOr(const Node& node, const char* name, T fallback) {
  const T* const found = FindAttribute<T>(node, name);
  if (found != nullptr) return *found;
  return fallback;
}
inline int64_t IntAttribute(const Node& node, const char* name, int64_t fallback) {
  return AttributeOr(node, name, fallback);
}
inline float FloatAttribute(const Node& node, const char* name, float fallback) {
  return AttributeOr(node, name, fallback);
}

}  // namespace cudaep::graph::ir
