// A node as a test describes it: identity, attributes, input values, output types.
//
// Ownership: copies everything it is given. Threads: one thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ops/op_info.h"

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

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, ops::HostTensor>;

class Node : public ops::OpInfo {
 public:
  Node(std::string domain, std::string op_type, int since_version);

  std::vector<InputTensor> inputs;
  std::vector<DataType> outputs;  // kUndefined: an output that nobody uses
  std::map<std::string, Attribute> attributes;

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
  std::optional<int64_t> Int(const char* attribute) const override { return Get<int64_t>(attribute); }
  std::optional<float> Float(const char* attribute) const override { return Get<float>(attribute); }
  std::optional<std::string> String(const char* attribute) const override { return Get<std::string>(attribute); }
  std::optional<std::vector<int64_t>> Ints(const char* attribute) const override {
    return Get<std::vector<int64_t>>(attribute);
  }
  std::optional<std::vector<float>> Floats(const char* attribute) const override {
    return Get<std::vector<float>>(attribute);
  }
  std::optional<std::vector<std::string>> Strings(const char* attribute) const override {
    return Get<std::vector<std::string>>(attribute);
  }
  std::optional<ops::HostTensor> Tensor(const char* attribute) const override {
    return Get<ops::HostTensor>(attribute);
  }
  const Settings& settings() const override { return settings_; }

 private:
  static ops::ValueKind KindOf(DataType type) {
    return type == DataType::kUndefined ? ops::ValueKind::kAbsent : ops::ValueKind::kTensor;
  }
  template <class T>
  std::optional<T> Get(const char* attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end() || !std::holds_alternative<T>(found->second)) return std::nullopt;
    return std::get<T>(found->second);
  }

  std::string domain_;
  std::string op_type_;
  int since_version_;
  Settings settings_;
};

}  // namespace cudaep::test
