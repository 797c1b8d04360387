// OpInfo over a node of the host's graph: lets GetCapability ask an operator whether it takes the node.
#pragma once

#include <string>
#include <vector>

#include "abi/host.h"
#include "abi/session_state.h"
#include "abi/type_info.h"
#include "ops/attributes.h"

namespace cudaep::abi {

class NodeInfo final : public ops::OpInfo {
 public:
  // `node`, `settings` and `state`, which knows who reads constants, must outlive the object.
  NodeInfo(const OrtNode* node, const Settings& settings, const SessionState* state = nullptr)
      : node_(node), settings_(settings), state_(state) {}
  // Reads identity, inputs and outputs; call it first.
  Status Read();

  // Null for an absent optional input or output.
  const std::vector<const OrtValueInfo*>& inputs() const { return inputs_; }
  const std::vector<const OrtValueInfo*>& outputs() const { return outputs_; }

  std::string_view name() const override { return name_; }
  std::string_view op_type() const override { return op_type_; }
  std::string_view domain() const override { return domain_; }
  int since_version() const override { return since_version_; }
  int input_count() const override { return static_cast<int>(inputs_.size()); }
  int output_count() const override { return static_cast<int>(outputs_.size()); }
  ops::ValueKind input_kind(int index) const override { return input_types_[static_cast<size_t>(index)].kind; }
  ops::ValueKind output_kind(int index) const override { return output_types_[static_cast<size_t>(index)].kind; }
  DataType input_type(int index) const override { return input_types_[static_cast<size_t>(index)].element; }
  DataType output_type(int index) const override { return output_types_[static_cast<size_t>(index)].element; }
  std::optional<Shape> input_dims(int index) const override { return input_types_[static_cast<size_t>(index)].dims; }
  std::optional<Shape> output_dims(int index) const { return output_types_[static_cast<size_t>(index)].dims; }
  std::optional<ops::ConstantInfo> constant(int index) const override;
  bool is_only_reader(int index) const override;
  std::optional<int64_t> Int(const char* attribute) const override;
  std::optional<float> Float(const char* attribute) const override;
  std::optional<std::string> String(const char* attribute) const override;
  std::optional<std::vector<int64_t>> Ints(const char* attribute) const override;
  std::optional<std::vector<float>> Floats(const char* attribute) const override;
  std::optional<std::vector<std::string>> Strings(const char* attribute) const override;
  std::optional<ops::HostTensor> Tensor(const char* attribute) const override;
  const Settings& settings() const override { return settings_; }

  // All but graphs.
  Result<ops::Attributes> ReadAttributes() const;

 private:
  // The attribute when the node has it with this type.
  const OrtOpAttr* Find(const char* attribute, OrtOpAttrType type) const;
  template <class T>
  std::optional<std::vector<T>> ReadArray(const char* attribute, OrtOpAttrType type) const;

  const OrtNode* node_;
  const Settings& settings_;
  const SessionState* const state_;
  std::string name_, op_type_, domain_;
  int since_version_ = 0;
  std::vector<const OrtValueInfo*> inputs_, outputs_;
  std::vector<ValueType> input_types_, output_types_;
};

}  // namespace cudaep::abi
