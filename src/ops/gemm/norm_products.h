// Layer normalisation between products of compiled regions: where all products around one are by tiles of 64 rows, each
// of a block (or cluster) of its own, they
// do its work (kernels/gemm/normed_rows.h), and in other calls a kernel of its own does.
//
// Each of those products is told of all, so that they agree for each number of rows without a word in a call.
#pragma once

#include <optional>

#include "kernels/gemm/normed_rows.h"
#include "ops/op_info.h"

namespace cudaep::ops {

class NormProducts {
 public:
  // No products: a normalisation that is always a kernel's.
  NormProducts() = default;
  explicit NormProducts(std::vector<kernels::ManyRowsProduct> products) : products_(std::move(products)) {}
  // As an attribute, n, k, activation and residual of each; kInvalidArgument for what is none. Absent: no products.
  static Result<NormProducts> Read(const OpInfo& info, const char* attribute);
  std::vector<int64_t> AsAttribute() const;
  bool empty() const { return products_.empty(); }

  // Whether all their kernels take so many rows.
  bool DoTheNorm(DataType type, int64_t rows, const device::DeviceInfo& device) const;

 private:
  std::vector<kernels::ManyRowsProduct> products_;
};

// The tiles of one of them.
std::optional<kernels::WarpgroupPlan> PlanNormProduct(const kernels::ManyRowsProduct& product,
                                                      const device::DeviceInfo& device);

}  // namespace cudaep::ops
