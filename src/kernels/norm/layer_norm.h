// Layer and RMS normalisation of contiguous rows, optionally of x + skip + bias (the residual forms).
//
//   s = x + skip + bias;  y = (s - mean) / sqrt(variance + epsilon) * scale + beta      (RMS: mean = 0)
//
// Other statistics stand in for the mean and the deviation (RowStatistic); without a scale it is 1.
//
// One launch; each element is read once where a row fits a block or the blocks of a cluster, and some of them twice
// where not (norm_plan.h). fp32 arithmetic (fp64 for double); the variance is never a difference of squares. `y` and
// `sum` may be `x` or `skip` of the same type and shape.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"
#include "kernels/norm/norm_plan.h"

namespace cudaep::kernels {

// Where a scale or shift that broadcasts to the input keeps the element of (row, column):
// (row / row_repeat % rows) * columns + column / column_repeat % columns.
struct AffineMap {
  int64_t row_repeat = 1, rows = 1;
  int64_t column_repeat = 1, columns = 1;
};

// By what rows are normalised: what is subtracted from an element, and what it is divided by.
enum class RowStatistic : int32_t {
  kVariance,   // the mean; sqrt(variance + epsilon)
  kRms,        // nothing; sqrt(mean of squares + epsilon)
  kDeviation,  // the mean; sqrt(variance) + epsilon
  kL2,         // nothing; sqrt(sum of squares), a row of zeros stays one
};

// For pointers that allow packs and for others.
struct LayerNormPlans {
  NormPlan packed, single;
};

struct LayerNormArgs {
  DataType x_type = DataType::kUndefined;  // of x, skip, bias and sum
  DataType y_type = DataType::kUndefined;  // of y, scale and beta
  const void* x = nullptr;
  const void* skip = nullptr;   // or null; `skip_rows` rows that repeat
  const void* bias = nullptr;   // or null; one row
  const void* scale = nullptr;  // or null
  const void* beta = nullptr;   // or null
  void* y = nullptr;            // y, sum, mean, inv_std: null where nobody uses it
  void* sum = nullptr;
  void* mean = nullptr;
  void* inv_std = nullptr;
  bool double_statistics = false;  // mean and inv_std are fp64, else fp32
  int64_t rows = 0, elems = 0;
  int64_t skip_rows = 1;
  AffineMap scale_map = {}, beta_map = {};
  double epsilon = 0;
  RowStatistic statistic = RowStatistic::kVariance;
  bool constant_affine = false;  // scale, beta and bias may be read before earlier work of the stream is done
  const LayerNormPlans* plans = nullptr;
};

// Equal types of kFloatTypes, or one of fp32 and the other a 16-bit one.
bool LayerNormSupports(DataType x_type, DataType y_type);

// `forced` is for pointers that allow packs; others take a kind that was forced if there is one without.
Result<LayerNormPlans> PlanLayerNorm(const NormProblem& problem, const device::DeviceInfo& device,
                                     const NormChoice& forced = {});

Status LaunchLayerNorm(const LayerNormArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
