// What is known about a node when its operator is created: identity, types, attributes, constants, settings.
//
// Three implementations exist: the host's kernel info (abi), a node of a compiled region (graph), a test's node.
// Lifetime: valid during Operator creation only; operators keep what they need.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/tensor_view.h"
#include "runtime/settings.h"

namespace cudaep::ops {

class OpInfo {
 public:
  virtual ~OpInfo() = default;

  virtual std::string_view name() const = 0;     // of the node, for messages
  virtual std::string_view op_type() const = 0;  // e.g. "Softmax"
  virtual std::string_view domain() const = 0;   // "" is ai.onnx
  virtual int since_version() const = 0;         // of the operator's schema as used by the model

  virtual int input_count() const = 0;  // trailing absent inputs may be included
  virtual int output_count() const = 0;
  virtual DataType input_type(int index) const = 0;  // kUndefined for an absent optional input
  virtual DataType output_type(int index) const = 0;

  // The value of an input in host memory when it is constant; absent otherwise.
  virtual std::optional<TensorView> host_constant(int index) const = 0;

  // Attributes by name; absent when the node has no such attribute or it is of another kind.
  virtual std::optional<int64_t> Int(const char* attribute) const = 0;
  virtual std::optional<float> Float(const char* attribute) const = 0;
  virtual std::optional<std::string> String(const char* attribute) const = 0;
  virtual std::optional<std::vector<int64_t>> Ints(const char* attribute) const = 0;
  virtual std::optional<std::vector<float>> Floats(const char* attribute) const = 0;

  virtual const Settings& settings() const = 0;

  bool has_input(int index) const { return index < input_count() && input_type(index) != DataType::kUndefined; }
  bool has_output(int index) const { return index < output_count() && output_type(index) != DataType::kUndefined; }
  int64_t IntOr(const char* attribute, int64_t fallback) const { return Int(attribute).value_or(fallback); }
  float FloatOr(const char* attribute, float fallback) const { return Float(attribute).value_or(fallback); }
  bool BoolOr(const char* attribute, bool fallback) const { return IntOr(attribute, fallback ? 1 : 0) != 0; }
  std::string StringOr(const char* attribute, const char* fallback) const {
    return String(attribute).value_or(fallback);
  }
  std::vector<int64_t> IntsOr(const char* attribute, std::vector<int64_t> fallback) const {
    return Ints(attribute).value_or(std::move(fallback));
  }
};

}  // namespace cudaep::ops
