// Models of QuantizeLinear and DequantizeLinear under construction.
#pragma once

#include "graph/ir/constants.h"
#include "transformer_net.h"

namespace cudaep::graph {

struct QdqNet : Net {
  explicit QdqNet(DataType element = DataType::kFloat) : Net(element) { x = Hidden("x"); }

  int Number(double number) { return graph.AddConstant("scale", ir::MakeNumbers(type, {}, {number})); }
  int Zero(int zero, DataType code) {
    return graph.AddConstant("zero", {.type = code, .dims = {}, .data = {static_cast<std::byte>(zero)}});
  }
  int Quantize(int value, double scale, int zero, DataType code = DataType::kUint8) {
    const int made = Add("QuantizeLinear", 21, {value, Number(scale), Zero(zero, code)}, *graph.value(value).dims);
    graph.value(made).type = code;
    return made;
  }
  int Dequantize(int value, double scale, int zero) {
    return Add("DequantizeLinear", 21, {value, Number(scale), Zero(zero, graph.value(value).type)},
               *graph.value(value).dims);
  }
  int Through(int value, double scale = 0.5, int zero = 3, DataType code = DataType::kUint8) {
    return Dequantize(Quantize(value, scale, zero, code), scale, zero);
  }
  // [rows, columns] of 1, 2, 3, ..., row by row.
  int Bytes(int64_t rows, int64_t columns, DataType code = DataType::kInt8) {
    ops::HostTensor tensor{.type = code, .dims = {rows, columns}, .data = {}};
    for (int64_t i = 0; i < rows * columns; ++i) tensor.data.push_back(static_cast<std::byte>(i + 1));
    return graph.AddConstant("w", std::move(tensor));
  }
  // With a scale for each place on the axis: 0.25, 0.5, 0.75, ...
  int Weights(int64_t rows, int64_t columns, int64_t axis = 1) {
    std::vector<double> scales;
    for (int64_t i = 0; i < (axis == 0 ? rows : columns); ++i) scales.push_back(0.25 * static_cast<double>(i + 1));
    const Shape dims{static_cast<int64_t>(scales.size())};
    const int scale = graph.AddConstant("scales", ir::MakeNumbers(type, dims, scales));
    return Add("DequantizeLinear", 21, {Bytes(rows, columns), scale}, {{rows}, {columns}}, {{"axis", axis}});
  }
  int MatMul(int a, int b) { return Add("MatMul", 13, {a, b}, kHiddenDims); }
  int Rows(const char* name) { return Input(name, {kRows, {kHidden}}); }
  int Gemm(std::vector<int> inputs, ops::Attributes attributes = {}) {
    return Add("Gemm", 13, std::move(inputs), {kRows, {kHidden}}, std::move(attributes));
  }
  int InputOf(size_t index, size_t input) const { return node(index).inputs[input]; }
  DataType TypeOf(size_t index, size_t input) const { return graph.value(InputOf(index, input)).type; }

  int x = -1;
};

inline std::string Missed(const std::vector<FusionNote>& notes) {
  for (const FusionNote& note : notes) {
    if (note.fusion == Fusion::kQdq && !note.missed.empty()) return note.missed;
  }
  return "";
}

}  // namespace cudaep::graph
