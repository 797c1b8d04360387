// The one element-wise finisher: what of an epilogue a vendor library left out, in one pass over the result.
//
// result = activation(alpha * sum + bias + beta * residual), or the residual last. Sums and result may be one tensor,
// and so may residual and result. Memory bound.
#pragma once

#include "core/data_type.h"
#include "core/epilogue.h"
#include "device/device.h"
#include "kernels/elementwise/broadcast.h"
#include "kernels/elementwise/unary.h"

namespace cudaep::kernels {

struct Finish {
  DataType from = DataType::kFloat, to = DataType::kFloat;  // of the sums; of bias, residual and result
  Epilogue epilogue;
  Broadcast<3> broadcast;       // of sums, bias, residual
  UnaryKernel alone = nullptr;  // where an activation is all there is to do: it chooses once, not for every element
};

// For a contiguous result of [outer, channels, inner] elements with one bias value a channel. The types are one float
// type, or int32 to a float type but double; kNotSupported otherwise.
Result<Finish> PlanFinish(DataType from, DataType to, const Epilogue& epilogue, int64_t outer, int64_t channels,
                          int64_t inner);

// `bias` and `residual` are not read where the epilogue has none. An empty result launches nothing.
Status LaunchFinish(const Finish& finish, const void* sums, const void* bias, const void* residual, void* result,
                    device::Stream stream);

}  // namespace cudaep::kernels
