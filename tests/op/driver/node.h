// A node as a test describes it: identity, attributes, input values, output types.
//
// Ownership: copies everything it is given. Threads: one thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ops/attributes.h"

namespace cudaep::test {

using Bytes = std::vector<std::byte>;

struct InputTensor {
  DataType type = DataType::kUndefined;  // kUndefined: an absent optional input
  std::vector<int64_t> dims;
  Bytes values;
  Bytes replay_values;    // of the second launch of a captured graph; same size
  bool constant = false;  // the operator sees the value when it is created

  ops::TensorView View(const void* data) const {
    return {.data = data, .dim = dims.data(), .rank = static_cast<int32_t>(dims.size()), .type = type};
  }
};

class Node : public ops::InfoWithAttributes {
 public:
  Node(std::string domain, std::string op_type, int since_version);

  std::vector<InputTensor> inputs;
  std::vector<DataType> outputs;  // kUndefined: an output that nobody uses
  ops::Attributes attributes;

  // Sets one of the provider's options that operators read; kInvalidArgument for another name.
  Status SetOption(std::string_view name, int64_t value);

  std::string_view name() const override { return "test"; }
  std::string_view op_type() const override { return op_type_; }
  std::string_view domain() const override { return domain_; }
  int since_version() const override { return since_version_; }
  int input_count() const override { return static_cast<int>(inputs.size()); }
  int output_count() const override { return static_cast<int>(outputs.size()); }
  DataType input_type(int index) const override { return inputs[static_cast<size_t>(index)].type; }
  DataType output_type(int index) const override { return outputs[static_cast<size_t>(index)]; }
  ops::ValueKind input_kind(int index) const override { return KindOf(input_type(index)); }
  ops::ValueKind output_kind(int index) const override { return KindOf(output_type(index)); }
  std::optional<Shape> input_dims(int /*index*/) const override { return std::nullopt; }
  std::optional<ops::ConstantInfo> constant(int index) const override;
  bool is_only_reader(int index) const override { return inputs[static_cast<size_t>(index)].constant; }
  const Settings& settings() const override { return settings_; }

 protected:
  const ops::Attributes& attribute_map() const override { return attributes; }

 private:
  static ops::ValueKind KindOf(DataType type) {
    return type == DataType::kUndefined ? ops::ValueKind::kAbsent : ops::ValueKind::kTensor;
  }
  std::string domain_;
  std::string op_type_;
  int since_version_;
  Settings settings_;
};

}  // namespace cudaep::test
