// Attributes of a node that are held by ourselves, and what asks for them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ops/op_info.h"

namespace cudaep::ops {

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, HostTensor>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

// OpInfo of a node whose attributes are a map: a compiled region's, a test's.
class InfoWithAttributes : public OpInfo {
 public:
  std::optional<int64_t> Int(const char* name) const final { return Get<int64_t>(name); }
  std::optional<float> Float(const char* name) const final { return Get<float>(name); }
  std::optional<std::string> String(const char* name) const final { return Get<std::string>(name); }
  std::optional<std::vector<int64_t>> Ints(const char* name) const final { return Get<std::vector<int64_t>>(name); }
  std::optional<std::vector<float>> Floats(const char* name) const final { return Get<std::vector<float>>(name); }
  std::optional<std::vector<std::string>> Strings(const char* name) const final {
    return Get<std::vector<std::string>>(name);
  }
  std::optional<HostTensor> Tensor(const char* name) const final { return Get<HostTensor>(name); }

 protected:
  virtual const Attributes& attribute_map() const = 0;

 private:
  template <class T>
  std::optional<T> Get(const char* name) const {
    const auto found = attribute_map().find(std::string_view(name));
    if (found == attribute_map().end() || !std::holds_alternative<T>(found->second)) return std::nullopt;
    return std::get<T>(found->second);
  }
};

}  // namespace cudaep::ops
