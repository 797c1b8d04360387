// What plans of every vendor library have in common.
//
// A plan is immutable and may be used by many threads and streams at once.
#pragma once

#include <cstddef>
#include <string>

#include "core/data_type.h"
#include "core/epilogue.h"
#include "core/status.h"

namespace cudaep::lib {

// Element types of operands and result, and what sums are kept in.
struct MixedTypes {
  DataType a = DataType::kFloat;  // of a convolution: x
  DataType b = DataType::kFloat;  // w
  DataType c = DataType::kFloat;  // the result, bias and residual
  DataType compute = DataType::kFloat;

  // All operands of one type, sums in fp32, double or int32.
  static constexpr MixedTypes Of(DataType type) {
    const DataType compute = kFloat16Types.Contains(type) ? DataType::kFloat
                             : type == DataType::kInt8    ? DataType::kInt32
                                                          : type;
    return {type, type, type == DataType::kInt8 ? DataType::kInt32 : type, compute};
  }
  // "float16", or "int8,int8,int32,int32".
  std::string Text() const;
  bool operator==(const MixedTypes&) const = default;
};

class Plan {
 public:
  virtual ~Plan() = default;

  size_t workspace_bytes() const { return workspace_bytes_; }
  // The part of the problem's epilogue that the library leaves out: the caller does it to the result afterwards
  // (kernels/epilogue/finish.h). Its alpha is always 1.
  const Epilogue& remaining() const { return remaining_; }
  // Text that makes the same plan again for the same problem on the same device and library version.
  const std::string& choice() const { return choice_; }
  // The same, with whatever the library compiled for it, so that loading is faster than making it; kNotSupported where
  // the library has nothing better than the choice.
  virtual Result<std::string> Save() const { return NotSupported("nothing to save but the choice"); }

 protected:
  size_t workspace_bytes_ = 0;
  Epilogue remaining_;
  std::string choice_;
};

}  // namespace cudaep::lib
