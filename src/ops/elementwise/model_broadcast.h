// Broadcasts in more dimensions than kernels walk: refused when the node is claimed, so that the CPU provider has it.
#pragma once

#include <array>

#include "kernels/elementwise/broadcast.h"
#include "ops/op_info.h"
#include "ops/planned_operator.h"

namespace cudaep::ops {

// Of up to kInputs inputs, as far as the model states their shapes; a Run refuses what only its tensors tell.
template <int kInputs>
Status CheckModelBroadcast(const OpInfo& info) {
  if (info.input_count() > kInputs) return Status::Ok();
  std::array<Shape, kInputs> shapes;
  Shape output;
  for (int i = 0; i < info.input_count(); ++i) {
    const std::optional<Shape> dims = info.input_dims(i);
    if (!dims || !IsKnown(*dims)) return Status::Ok();
    Result<Shape> both = BroadcastShapes(output, *dims);
    if (!both.ok()) return Status::Ok();  // the Run says it better
    output = std::move(both).value();
    shapes[static_cast<size_t>(i)] = *dims;
  }
  std::array<Dims, kInputs> inputs;
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = shapes[i].dims();
  return kernels::MakeBroadcast<kInputs>(output, inputs).status();
}

}  // namespace cudaep::ops
