// A planned matrix product for operators: by the library where it can, by the project's own kernel otherwise.
//
// The choice: what the option says, then what is possible, then the library. The own kernel takes integers, an inner
// size of 0, and what the library refuses or would be needed for where it is missing. What of the epilogue the library
// leaves out is done by the finisher. Library plans come from the process's plan store, with the number of rows rounded
// up, so that products of many lengths share a plan. A call that the library refuses for its pointers' alignment runs
// by the own kernel, unless the option forces the library. A deterministic plan's algorithm is the same wherever the
// tensors lie: those that are aligned less than it wants are copied, into memory that such a call allocates on its
// stream and frees (kOutOfMemory; while the stream is captured kFailedPrecondition, unless such a call ran before).
// Few rows have ways of their own (ops/gemm/short_product.h), and so have many rows
// (kernels/gemm/many_rows.h); calls and rows that those do not take go the others.
// Threads: immutable after Make.
#pragma once

#include <memory>
#include <optional>

#include "kernels/epilogue/finish.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/gemm/many_rows.h"
#include "lib/blas.h"
#include "ops/gemm/product_plans.h"

namespace cudaep::ops {

// What of the settings a product depends on.
struct ProductOptions {
  ProductOptions() = default;
  explicit ProductOptions(const Settings& settings)
      : path(settings.gemm_path),
        allow_tf32(settings.use_tf32),
        deterministic(settings.deterministic),
        compiles(settings.compiled_engines && settings.enable_cudnn),
        search(settings) {}
  GemmPath path = GemmPath::kAuto;
  bool allow_tf32 = true, deterministic = false;
  bool compiles = false;  // engines in the background: not with a bias that earlier work writes (dnn::ConvPlan)
  ProductSearch search;
  // The operand lies at one address as long as the operator lives, so that how it is aligned may decide: it is never
  // copied, and the own kernel takes what the library would not.
  bool constant_a = false, constant_b = false;
  bool constant_bias = false;  // kernels may read it before earlier work of the stream is done
  bool may_be_short = false;   // MayBeShort: B is constant, and transposed
};

// Of a product with this output and inner size, whatever batches it has: two for each inner element.
inline double ProductFlops(Dims output, int64_t inner) {
  return 2.0 * static_cast<double>(ElementCount(output)) * static_cast<double>(inner);
}

// Rows that a plan for `m` rows is made for: m up to 16, then the next of eight steps an octave.
int64_t RowBucket(int64_t m);

class MatrixProduct {
 public:
  // Numerics of `problem` are those of the options. `problem.types` may also be of one integer type. All sizes but k
  // are positive. The workspace stays below the limit given and, unless the problem is deterministic, below what the
  // stream may still take. kNotSupported when the options force what cannot be done.
  static Result<MatrixProduct> Make(StreamContext& stream, const blas::GemmProblem& problem,
                                    const ProductOptions& options, size_t workspace_limit_bytes = SIZE_MAX);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Null: the own kernel.
  const PlanSlotPtr& library() const { return library_; }
  bool has_few_rows() const { return few_rows_.has_value(); }  // and runs by the kernel for those
  bool has_many_rows_kernel() const { return many_rows_.has_value(); }
  // Null: no convolution.
  const PlanSlotPtr& convolution() const { return convolution_; }
  // Plan::settled.
  bool settled() const { return convolution_ == nullptr || convolution_->progress() != PlanSlot::Progress::kMaking; }

  // The same product of other rows, in the same workspace; of one batch, A not transposed. Costs a question to the
  // library, so it is for operators whose plan serves several numbers of rows. Rows that this product's plan does not
  // cover, more of them or fewer, get a plan of their own.
  Result<MatrixProduct> OfRows(StreamContext& stream, int64_t rows) const;

  // `at.workspace` has at least workspace_bytes().
  Status Enqueue(StreamContext& stream, const blas::GemmPointers& at) const;

 private:
  void PlanOwnWays(const device::DeviceInfo& device);
  Status TakeRemainder();
  Status UseLibrary(StreamContext& stream, const ProductOptions& options, size_t limit);
  Status EnqueueOwn(StreamContext& stream, const blas::GemmPointers& at) const;
  Status EnqueueLibrary(StreamContext& stream, const blas::GemmPointers& at) const;
  Status EnqueueCopies(StreamContext& stream, blas::Handle& handle, const blas::GemmPlan& plan,
                       blas::GemmPointers at) const;

  blas::GemmProblem problem_;
  std::optional<kernels::FewRowsPlan> few_rows_;
  std::optional<kernels::WarpgroupPlan> many_rows_;
  PlanSlotPtr library_, convolution_;
  std::shared_ptr<const ProductSearch> search_;  // with `library_`; products are copied for each call by some
  size_t workspace_bytes_ = 0;
  bool constant_a_ = false, constant_b_ = false, constant_bias_ = false, may_be_short_ = false;
  bool may_fall_back_ = false;             // to the own kernel, in a call that the library refuses
  std::optional<kernels::Finish> finish_;  // of what the library leaves out
};

}  // namespace cudaep::ops
