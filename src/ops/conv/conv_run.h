// Runs a convolution problem: own depthwise kernel, own pointwise kernel, library (as it is, or channels-last between
// transposes), or column matrix and product; shared by all operators that convolve.
//
// The choice: what the option conv_path says, then what is possible, then the own kernels where they are known to be
// ahead, then measured plans where the option asks for them and bits need not be the same each time, then the library's
// own order. What of the epilogue a path leaves out is done by the finisher. Library plans come from the process's plan
// store.
#pragma once

#include <optional>

#include "kernels/epilogue/finish.h"
#include "kernels/movement/strided_copy.h"
#include "kernels/movement/transpose_plan.h"
#include "ops/conv/conv_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/operator.h"

namespace cudaep::ops {

enum class ConvRoute : uint8_t { kNothing, kDepthwise, kPointwise, kChannelsLast, kLibrary, kColumns, kTurned };

// A tensor's other layout in the workspace.
struct TurnedTensor {
  bool moves = false;  // else the layouts are one, or the tensor has the one wanted
  kernels::TransposePlan transpose;
  size_t offset = 0;
};
struct ChannelsLast {
  TurnedTensor x, w, y;       // of y, from channels last to channels first
  size_t library_offset = 0;  // of the workspace of what runs between them
};

// Where copies of tensors that are parts lie in the workspace.
struct PartCopies {
  size_t x = 0, residual = 0, y = 0;
};

struct ConvRunPlan : Plan {
  ConvRoute route = ConvRoute::kNothing;
  dnn::ConvProblem problem;
  bool packed_weights = false;  // their channels lie last (PackConvWeights)
  kernels::DepthwiseConv depthwise;
  kernels::ManyRowsProduct pointwise;
  kernels::WarpgroupPlan pointwise_tiles;
  PlanSlotPtr library;
  ChannelsLast channels_last;
  PartCopies part_copies;
  PlanPtr turned;  // kTurned: what runs between transposes to channels first and back, `channels_last` says where

  ColumnConv columns;
  MatrixProduct full_chunk, last_chunk;
  bool starts_from_bias = false;  // y is filled with it and accumulated to: one rounding
  kernels::StridedCopy spread_bias;
  kernels::TransposePlan pack_weights;            // of a transposed convolution, or packed ones back
  size_t columns_offset = 0, product_offset = 0;  // into the workspace; packed weights come first

  std::optional<kernels::Finish> finish;  // of what the route leaves out
};

// What of the settings a convolution depends on.
struct ConvOptions {
  explicit ConvOptions(const Settings& settings)
      : product(settings),
        path(settings.conv_path),
        use_library(settings.enable_cudnn),
        max_workspace(settings.conv_use_max_workspace),
        pad_to_nc1d(settings.conv1d_pad_to_nc1d),
        search(settings.conv_search) {}
  bool path_may_be_library() const {
    return path == ConvPath::kLibrary || path == ConvPath::kChannelsLast || (path == ConvPath::kAuto && use_library);
  }
  ProductOptions product;
  ConvPath path;
  bool use_library, max_workspace, pad_to_nc1d;
  ConvSearch search;
};

// Numerics of `problem` are those of the options, its layout that of x and y: weights have their channels where
// `packed_weights` (PackConvWeights made them) says, first or last. kNotSupported when the options force what cannot be
// done.
Result<PlanPtr> PlanConvRun(const ConvOptions& options, dnn::ConvProblem problem, StreamContext& stream,
                            bool packed_weights = false);

// Where the column matrix of a convolution comes from.
class ColumnSource {
 public:
  virtual ~ColumnSource() = default;
  // Makes the columns of output pixels [first, first + pixels) of an image.
  virtual Status Make(int64_t image, int64_t first, int64_t pixels, void* columns) const = 0;
};

// The route of columns for a caller with columns of its own; x of the pointers is not read.
Result<PlanPtr> PlanConvColumns(const ProductOptions& options, dnn::ConvProblem problem, StreamContext& stream);
Status EnqueueConvColumns(const ConvRunPlan& plan, StreamContext& stream, const ColumnSource& source,
                          const dnn::ConvPointers& at);

// Tensors may have any alignment: the library's unaligned ones are copied into the stream's workspace, which grows the
// first time. The residual may be y only where the plan's library fuses it, or by the pointwise kernel.
Status EnqueueConvRun(const ConvRunPlan& plan, StreamContext& stream, const dnn::ConvPointers& at);

}  // namespace cudaep::ops
