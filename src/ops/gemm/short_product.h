// Products of few rows (and of many, of few inner elements) with constant weights, [columns, inner]: up to 16 rows by a
// kernel of our own (kernels/gemm/few_rows.h), more by another where it is planned (kernels/gemm/many_rows.h). Up to
// 256 else as 1x1 convolutions of one channels-last image whose pixels are the rows: the library's runtime engine
// (ops/conv/runtime_engine.h) takes them with any activation that it has, and begins before its predecessor has ended,
// as no engine for products does. The same engine for a product as such would take several times as long to compile.
// Until it is compiled, products run as others do.
#pragma once

#include <optional>

#include "kernels/gemm/few_rows.h"
#include "kernels/gemm/many_rows.h"
#include "lib/blas.h"
#include "ops/op_info.h"
#include "runtime/plan_store.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// Measured on an H200 with BERT-base's four products: at 128 rows all are ahead of the library's (by 0.9 to 1.2 us, and
// by a kernel where GELU follows), at 1024 the widest is 2 us behind.
inline constexpr int64_t kMostShortRows = 256;

// Whether a session runs products so: bits that change when a plan is there, or with where tensors lie, are not
// deterministic.
bool MayBeShort(const Settings& settings);
// Whether a node does, of which the model states no more rows (of input 0, all dimensions but the last), unless `many`
// are taken too. Weights that are to be packed must be the node's alone, or they were on the device twice: those that
// nobody else reads, or that a compiled region gave it with the attribute "own_weights".
bool MayBeShort(const OpInfo& info, int weights_input, bool packs, bool many = false);
// Whether weights of a product that is known to have many rows are packed too: with GELU alone (and those of gated
// products, ops/gemm/gated_matmul.cc), where the kernel of our
// own (kernels/gemm/many_rows.h) gains most. Who packs does not know the device: others give the library the packed
// form.
inline bool PacksManyRows(Activation activation, bool residual) {
  return activation == Activation::kGeluErf && !residual;
}
// Whether dimensions are of more rows, whatever those count that are unknown, unless there are none.
bool HasManyRows(Dims a);
// Whether weights [inner, columns], or [columns, inner], are of a type and sizes that kernel and engine take.
bool FitShort(DataType type, Dims weights);

// Bytes of weights [inner, columns] in the form that they are packed in, by TurnWeight; 0: they are taken as they are.
size_t PackedShortWeights(const TensorView& weights);

// Nothing where the own kernels do not take the problem.
std::optional<kernels::FewRowsPlan> PlanFewRows(const blas::GemmProblem& problem, const device::DeviceInfo& device);
std::optional<kernels::WarpgroupPlan> PlanManyRows(const blas::GemmProblem& problem, const device::DeviceInfo& device);
kernels::ManyRowsProduct ManyRowsOf(const blas::GemmProblem& problem);
// The own kernels are for tensors that are.
bool IsAlignedForPacks(const blas::GemmProblem& problem, const blas::GemmPointers& at);
Status EnqueueFewRows(StreamContext& stream, const blas::GemmProblem& problem, const kernels::FewRowsPlan& plan,
                      const blas::GemmPointers& at);

// From the plan store, to be filled in the background: until then, and where that fails, TakesShort is false. Null
// where the problem is not such a product, or the engine was found not to take it.
Result<PlanSlotPtr> FindShortProduct(StreamContext& stream, const blas::GemmProblem& problem,
                                     size_t workspace_limit_bytes);

// Whether there is a plan, which takes the tensors where they lie; EnqueueShortProduct is for those alone.
bool TakesShort(const PlanSlot& slot, const blas::GemmProblem& problem, const blas::GemmPointers& at);
Status EnqueueShortProduct(StreamContext& stream, const PlanSlot& slot, const blas::GemmPointers& at);

}  // namespace cudaep::ops
