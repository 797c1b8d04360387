// What QuantizeLinear and DequantizeLinear say of codes: numbers that stand for (code - zero point) * scale.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/pass/match.h"
#include "kernels/quant/code_reciprocal.h"

namespace cudaep::graph {

struct Quantization {
  int real = -1, codes = -1;  // values
  DataType type = DataType::kUndefined;
  std::vector<float> scales;   // one, or one for each place on `axis`; positive
  std::vector<int32_t> zeros;  // as many
  size_t axis = 0;

  bool is_uniform() const { return scales.size() == 1; }
  float scale() const { return scales.front(); }
  int32_t zero() const { return zeros.front(); }
  bool has_zeros() const;  // that are not 0
  bool is_moderate() const { return std::ranges::all_of(scales, kernels::IsModerateScale); }
  // Whether the same codes stand for the same numbers, in tensors of any dimensions.
  bool IsSame(const Quantization& other) const {
    return is_uniform() && other.is_uniform() && type == other.type && scale() == other.scale() &&
           zero() == other.zero();
  }
};

inline bool IsFloat(const ir::Graph& graph, int value) { return graph.value(value).type == DataType::kFloat; }

// The lowest code of an 8-bit type.
inline int32_t LowestCode(DataType type) { return type == DataType::kInt8 ? -128 : 0; }

// Of a node with codes of 8 bits, or 32 where it dequantizes, with constants for scales and zero points and without
// blocks, that divides in fp32; nothing of another.
std::optional<Quantization> QuantizationOf(const ir::Graph& graph, const ir::Node& node, std::string_view op);

// Codes of 8 bits that a DequantizeLinear makes a value of.
struct CodedValue {
  const ir::Node* node = nullptr;
  Quantization linear;
};
std::optional<CodedValue> CodedValueOf(const ir::Graph& graph, const Matcher& match, int value);

// Adds the scale and the zero point of a node that quantizes or dequantizes to the inputs of `made`; 0 of the codes'
// type where the node leaves it out.
void AddCoding(ir::Graph& graph, const ir::Node& node, DataType codes, ir::Node& made);

// Sums of as many products of two codes, of 255 * 255 at most, always fit 32 bits.
inline constexpr int64_t kMostSummed = 33025;

// Numbers of a constant of int8, uint8 or int32; nothing of another value.
std::optional<std::vector<int32_t>> CodesOf(const ir::Graph& graph, int value);

}  // namespace cudaep::graph
