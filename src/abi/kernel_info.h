// OpInfo over the host's kernel info: what an operator is created from when a session builds its kernels.
#pragma once

#include <string>
#include <vector>

#include "abi/host.h"
#include "abi/session_state.h"
#include "abi/type_info.h"
#include "ops/op_info.h"

namespace cudaep::abi {

class KernelInfo final : public ops::OpInfo {
 public:
  // `info` and `state` must outlive the object.
  KernelInfo(const OrtKernelInfo* info, const SessionState& state) : info_(info), state_(state) {}
  // Reads identity and types; call it first.
  Status Read();

  std::string_view name() const override { return name_; }
  std::string_view op_type() const override { return op_type_; }
  std::string_view domain() const override { return domain_; }
  int since_version() const override { return since_version_; }
  int input_count() const override { return static_cast<int>(input_types_.size()); }
  int output_count() const override { return static_cast<int>(output_types_.size()); }
  ops::ValueKind input_kind(int index) const override { return input_types_[static_cast<size_t>(index)].kind; }
  ops::ValueKind output_kind(int index) const override { return output_types_[static_cast<size_t>(index)].kind; }
  DataType input_type(int index) const override { return input_types_[static_cast<size_t>(index)].element; }
  DataType output_type(int index) const override { return output_types_[static_cast<size_t>(index)].element; }
  std::optional<Shape> input_dims(int index) const override { return input_types_[static_cast<size_t>(index)].dims; }
  std::optional<ops::ConstantInfo> constant(int index) const override;
  bool is_only_reader(int index) const override;
  std::optional<int64_t> Int(const char* attribute) const override;
  std::optional<float> Float(const char* attribute) const override;
  std::optional<std::string> String(const char* attribute) const override;
  std::optional<std::vector<int64_t>> Ints(const char* attribute) const override;
  std::optional<std::vector<float>> Floats(const char* attribute) const override;
  // Absent on hosts before kApiStringsAttribute.
  std::optional<std::vector<std::string>> Strings(const char* attribute) const override;
  std::optional<ops::HostTensor> Tensor(const char* attribute) const override;
  const Settings& settings() const override { return state_.settings(); }

  // The value's name in the session's graph.
  Result<std::string> InputName(size_t index) const;
  // The node as messages name it: by its output where it has no name (as graph::Label).
  std::string Label() const;
  // A constant input where the host keeps it for the session, on the device or in host memory; null where the input may
  // differ between Runs.
  const OrtValue* ConstantValue(int index) const;

 private:
  const OrtKernelInfo* info_;
  const SessionState& state_;
  std::string name_, op_type_, domain_;
  int since_version_ = 0;
  std::vector<ValueType> input_types_, output_types_;
};

}  // namespace cudaep::abi
