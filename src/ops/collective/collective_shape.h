// What a collective operator does to shapes: it splits the input along an axis, exchanges parts with the other ranks
// and joins what it gets along an axis, or leaves one or both of these out.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "core/shape.h"
#include "core/status.h"

namespace cudaep::ops {

enum class Collective : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

struct CollectiveShape {
  Collective kind{};
  int64_t group_size = 0;  // 0: not stated, which only AllReduce may leave out
  int64_t split_axis = 0, concat_axis = 0;

  bool splits() const { return kind == Collective::kReduceScatter || kind == Collective::kAllToAll; }
  bool joins() const { return kind == Collective::kAllGather || kind == Collective::kAllToAll; }

  // Whether the size along `axis` of a tensor of `rank` dimensions differs from the input's.
  bool ChangesAxis(int axis, int rank) const;
  // Dimensions may be kUnknownDim, and stay so where the size is not known.
  Result<Shape> Infer(Dims dims) const;
};

// From the attributes, which `get(name)` knows as optional integers.
template <std::invocable<const char*> F>
Result<CollectiveShape> ReadCollectiveShape(Collective kind, F&& get) {
  CollectiveShape shape{.kind = kind};
  const char* const split = kind == Collective::kAllToAll ? "split_axis" : "axis";
  const char* const join = kind == Collective::kAllToAll ? "concat_axis" : "axis";
  if (shape.splits()) shape.split_axis = get(split).value_or(0);
  if (shape.joins()) shape.concat_axis = get(join).value_or(0);
  const std::optional<int64_t> group_size = get("group_size");
  shape.group_size = group_size.value_or(0);
  if (!group_size && kind != Collective::kAllReduce) return InvalidArgument("attribute group_size is missing");
  if (group_size && *group_size < 1) return InvalidArgument("attribute group_size is ", *group_size);
  return shape;
}

}  // namespace cudaep::ops
