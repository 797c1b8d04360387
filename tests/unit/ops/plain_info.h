// The description of a float node of the domain "test" that has no attributes.
#pragma once

#include "ops/op_info.h"

namespace cudaep::ops::testing {

class PlainInfo : public OpInfo {
 public:
  explicit PlainInfo(const char* op_type, int inputs) : op_type_(op_type), inputs_(inputs) {}
  std::string_view name() const override { return "plain"; }
  std::string_view op_type() const override { return op_type_; }
  std::string_view domain() const override { return "test"; }
  int since_version() const override { return 1; }
  int input_count() const override { return inputs_; }
  int output_count() const override { return 1; }
  DataType input_type(int) const override { return DataType::kFloat; }
  DataType output_type(int) const override { return DataType::kFloat; }
  ValueKind input_kind(int) const override { return ValueKind::kTensor; }
  ValueKind output_kind(int) const override { return ValueKind::kTensor; }
  std::optional<Shape> input_dims(int) const override { return std::nullopt; }
  std::optional<ConstantInfo> constant(int) const override { return std::nullopt; }
  std::optional<int64_t> Int(const char*) const override { return std::nullopt; }
  std::optional<float> Float(const char*) const override { return std::nullopt; }
  std::optional<std::string> String(const char*) const override { return std::nullopt; }
  std::optional<std::vector<int64_t>> Ints(const char*) const override { return std::nullopt; }
  std::optional<std::vector<float>> Floats(const char*) const override { return std::nullopt; }
  std::optional<std::vector<std::string>> Strings(const char*) const override { return std::nullopt; }
  std::optional<HostTensor> Tensor(const char*) const override { return std::nullopt; }
  const Settings& settings() const override { return settings_; }

 private:
  const char* op_type_;
  int inputs_;
  Settings settings_;
};

}  // namespace cudaep::ops::testing
