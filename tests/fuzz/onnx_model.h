// An ONNX model as plain structs, read from and written to protobuf bytes: what the mutations work on.
//
// Only what the fuzzer's models hold is kept: one graph of nodes, dense initializers and tensor-typed inputs and
// outputs. Fields beyond that are dropped by Parse. Nothing is checked: a model may be as wrong as its bytes can say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cudaep::fuzz {

// Numbers of onnx.AttributeProto.AttributeType.
enum AttributeKind : int64_t { kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kFloats = 6, kInts = 7, kStrings = 8 };

struct Tensor {
  std::string name;
  std::vector<int64_t> dims;
  int64_t type = 1;
  std::string raw;
};

struct Attribute {
  std::string name;
  int64_t kind = 0;
  float real = 0;
  int64_t integer = 0;
  std::string text;
  std::vector<float> reals;
  std::vector<int64_t> integers;
  std::vector<std::string> texts;
  std::optional<Tensor> tensor;
};

struct Node {
  std::vector<std::string> inputs, outputs;
  std::string name, op, domain;
  std::vector<Attribute> attributes;
};

struct Dim {
  std::optional<int64_t> value;
  std::string symbol;
};

struct ValueInfo {
  std::string name;
  int64_t type = 1;
  std::optional<std::vector<Dim>> shape;
};

struct Model {
  int64_t ir_version = 9;
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
};

// Nothing when the bytes are no protobuf message.
std::optional<Model> Parse(std::string_view bytes);
std::string Serialize(const Model& model);

// Bytes of an element, 0 for what raw data cannot hold (strings).
size_t ElementBytes(int64_t type);

}  // namespace cudaep::fuzz
