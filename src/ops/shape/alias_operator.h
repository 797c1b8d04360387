// Base of operators that change nothing but the shape: the output is the input's buffer wherever the host lets it be.
//
// Their rows say so with `.aliases = {{0, 0}}`. Where the host still gives a buffer of its own (a graph output, say),
// one copy is enqueued.
#pragma once

#include "kernels/common/narrow_types.h"
#include "ops/registry.h"

namespace cudaep::ops {

class AliasOperator : public Operator {
 public:
  Status Enqueue(const Plan&, const OpContext& context) const final {
    if (context.output(0) == context.input(0)) return Status::Ok();
    return device::MemcpyAsync(context.output(0), context.input(0), context.inputs[0].bytes(), context.stream());
  }
};

// A row of the family. `host_inputs` are shapes or axes.
inline KernelRow AliasRow(const char* op, int since, int until, OperatorFactory make, std::vector<int> host_inputs = {},
                          const char* constraint = "T") {
  return {
      .op = op,
      .since = since,
      .until = until,
      .types = {{constraint, until >= 19 ? kernels::kStoredTypes : kFixedSizeTypes}},  // the rest came with opset 19
      .host_inputs = std::move(host_inputs),
      .aliases = {{0, 0}},
      .make = make};
}

}  // namespace cudaep::ops
