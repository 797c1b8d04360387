// What is known about a node when its operator is created: identity, kinds and types of values, attributes, which
// inputs are constant, settings.
//
// Implementations: the host's graph node (abi/node_info.h, asked while claiming), the host's kernel info
// (abi/kernel_info.h, asked while kernels are created), a test's node. The first two answer alike for the same node, so
// that what is claimed can be created: an input that is constant when claiming is constant at creation.
// Lifetime: valid during Operator creation only; operators keep what they need.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/tensor_view.h"
#include "runtime/settings.h"

namespace cudaep::ops {

enum class ValueKind : uint8_t {
  kAbsent,  // an optional input or output that the node leaves out
  kTensor,
  kSequence,
  kOptional,
  kOther,  // maps, sparse tensors
};

// Type and dimensions of a constant input. Its value is the device's; an operator that needs a value in host memory
// asks for the input there (KernelRow::host_inputs).
struct ConstantInfo {
  DataType type = DataType::kUndefined;
  Shape dims;
};

// A tensor attribute, copied to host memory.
struct HostTensor {
  DataType type = DataType::kUndefined;
  Shape dims;
  std::vector<std::byte> data;

  TensorView view() const { return {.data = data.data(), .dim = dims.data(), .rank = dims.rank(), .type = type}; }
};

class OpInfo {
 public:
  virtual ~OpInfo() = default;

  virtual std::string_view name() const = 0;     // of the node, for messages
  virtual std::string_view op_type() const = 0;  // e.g. "Softmax"
  virtual std::string_view domain() const = 0;   // "" is ai.onnx
  virtual int since_version() const = 0;         // of the operator's schema as used by the model

  virtual int input_count() const = 0;  // trailing absent inputs may be included
  virtual int output_count() const = 0;
  virtual ValueKind input_kind(int index) const = 0;
  virtual ValueKind output_kind(int index) const = 0;
  // Of the elements of a tensor; kUndefined for anything else.
  virtual DataType input_type(int index) const = 0;
  virtual DataType output_type(int index) const = 0;
  // Dimensions of an input as the model states them, kUnknownDim where it does not; absent without a known rank.
  // For choices and estimates only: shapes of a Run come from its tensors.
  virtual std::optional<Shape> input_dims(int index) const = 0;

  // An input that is the same in every Run. Constants of an outer graph do not count: the host knows them in some
  // places and not in others.
  virtual std::optional<ConstantInfo> constant(int index) const = 0;
  // Whether nobody else reads that constant, as far as is known, so that a packed form takes no more memory than it.
  virtual bool is_only_reader(int /*index*/) const { return false; }

  // Attributes by name; absent when the node has no such attribute or it is of another kind. Empty strings and lists
  // are present.
  virtual std::optional<int64_t> Int(const char* attribute) const = 0;
  virtual std::optional<float> Float(const char* attribute) const = 0;
  virtual std::optional<std::string> String(const char* attribute) const = 0;
  virtual std::optional<std::vector<int64_t>> Ints(const char* attribute) const = 0;
  virtual std::optional<std::vector<float>> Floats(const char* attribute) const = 0;
  virtual std::optional<std::vector<std::string>> Strings(const char* attribute) const = 0;
  virtual std::optional<HostTensor> Tensor(const char* attribute) const = 0;

  virtual const Settings& settings() const = 0;

  bool has_input(int index) const { return index < input_count() && input_kind(index) != ValueKind::kAbsent; }
  bool has_output(int index) const { return index < output_count() && output_kind(index) != ValueKind::kAbsent; }
  // Of those the node lists, which may end with an absent one; for operators of any number of inputs.
  std::optional<int> absent_input() const {
    for (int i = 0; i < input_count(); ++i) {
      if (!has_input(i)) return i;
    }
    return std::nullopt;
  }
  bool is_constant(int index) const { return has_input(index) && constant(index).has_value(); }
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
