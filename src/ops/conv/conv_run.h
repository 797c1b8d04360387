// Runs a convolution problem: own depthwise kernel, library, or column matrix and product; shared by Conv and
// ConvTranspose.
#pragma once

#include <memory>

#include "kernels/elementwise/broadcast.h"
#include "kernels/movement/transpose_plan.h"
#include "ops/conv/conv_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/operator.h"

namespace cudaep::ops {

enum class ConvPath : uint8_t { kNothing, kDepthwise, kLibrary, kColumns };

struct ConvRunPlan : Plan {
  ConvPath path = ConvPath::kNothing;
  dnn::ConvProblem problem;
  kernels::DepthwiseConv depthwise;
  std::unique_ptr<const dnn::ConvPlan> library;

  ColumnConv columns;
  MatrixProduct full_chunk, last_chunk;
  bool starts_from_bias = false;  // y is filled with it and accumulated to: one rounding
  kernels::StridedCopy spread_bias;
  kernels::TransposePlan pack_weights;            // of a transposed convolution
  size_t columns_offset = 0, product_offset = 0;  // into the workspace; packed weights come first

  bool adds_bias = false;  // by a kernel of its own, after the library's convolution
  kernels::Broadcast<2> bias;
};

// What of the settings a convolution depends on.
struct ConvOptions {
  explicit ConvOptions(const Settings& settings)
      : use_tf32(settings.use_tf32),
        deterministic(settings.deterministic),
        use_library(settings.enable_cudnn),
        max_workspace(settings.conv_use_max_workspace),
        pad_to_nc1d(settings.conv1d_pad_to_nc1d),
        search(settings.conv_search) {}
  bool use_tf32, deterministic, use_library, max_workspace, pad_to_nc1d;
  ConvSearch search;
};

// The library is asked first where it is allowed; what it lacks or refuses runs by columns.
Result<PlanPtr> PlanConvRun(const ConvOptions& options, dnn::ConvProblem problem, StreamContext& stream);

Status EnqueueConvRun(const ConvRunPlan& plan, const OpContext& context);

}  // namespace cudaep::ops
