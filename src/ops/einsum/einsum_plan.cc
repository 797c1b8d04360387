#include "ops/einsum/einsum_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "ops/reduce/reduction.h"

namespace cudaep::ops {
namespace {

// A tensor between two steps.
struct Operand {
  EinsumBuffer buffer;
  LabelView view;
};

// The input's labels, strides descending; a label that occurs twice steps along the diagonal.
LabelView ViewOf(const EinsumLabels& labels, size_t input, Dims dims) {
  const Shape strides = ContiguousStrides(dims);
  LabelView view;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int label = labels.inputs[input][d];
    if (dims[d] == 1) continue;
    const auto same = std::find_if(view.begin(), view.end(), [&](const LabelAxis& x) { return x.label == label; });
    if (same != view.end()) {
      same->stride += strides[static_cast<int>(d)];
    } else {
      view.push_back({label, dims[d], strides[static_cast<int>(d)]});
    }
  }
  std::stable_sort(view.begin(), view.end(),
                   [](const LabelAxis& x, const LabelAxis& y) { return x.stride > y.stride; });
  return view;
}

class Planner {
 public:
  Planner(const EinsumLabels& labels, DataType type, const ProductOptions& options, const PlanContext& context)
      : type_(type), options_(options), context_(context), plan_(std::make_unique<EinsumPlan>()) {
    for (const int label : labels.output) {
      const int64_t size = labels.size[static_cast<size_t>(label)];
      if (size != 1) output_.push_back({label, size, 0});
    }
    output_ = Dense(std::move(output_));
    for (size_t i = 0; i < labels.inputs.size(); ++i) {
      const EinsumBuffer buffer{.is_input = true, .input = static_cast<int>(i)};
      operands_.push_back({buffer, ViewOf(labels, i, context.inputs[i].dims())});
    }
  }

  Result<PlanPtr> Run() {
    if (std::any_of(operands_.begin(), operands_.end(), [](const Operand& x) { return Elements(x.view) == 0; })) {
      plan_->steps.push_back({.to = {.is_output = true}, .action = ZeroStep{}});
      return PlanPtr(std::move(plan_));
    }
    for (size_t i = 0; i < operands_.size(); ++i) CUDAEP_RETURN_IF_ERROR(SumAlone(i));
    while (operands_.size() > 1) CUDAEP_RETURN_IF_ERROR(CombineCheapestPair());
    if (!operands_[0].buffer.is_output) CUDAEP_RETURN_IF_ERROR(Copy(operands_[0], output_, {.is_output = true}));
    plan_->library_scratch = plan_->AddScratch(library_bytes_);
    return PlanPtr(std::move(plan_));
  }

 private:
  bool IsKept(int label, const Operand* one, const Operand* other) const {
    if (FindLabel(output_, label) != nullptr) return true;
    return std::any_of(operands_.begin(), operands_.end(), [&](const Operand& x) {
      return &x != one && &x != other && FindLabel(x.view, label) != nullptr;
    });
  }

  EinsumBuffer Scratch(const LabelView& view) {
    return {.scratch = plan_->AddScratch(static_cast<size_t>(Elements(view)) * SizeOf(type_))};
  }
  // The output where it is the last step's, and lies as it should.
  EinsumBuffer Target(const LabelView& view, bool last) {
    return last && view == output_ ? EinsumBuffer{.is_output = true} : Scratch(view);
  }

  // `to` has the labels of the operand in the order of `order`, without gaps.
  Status Copy(const Operand& from, const LabelView& order, EinsumBuffer to) {
    EinsumStep step{.a = from.buffer, .to = to};
    std::vector<int64_t> dims, strides, perm;
    if (IsDense(from.view)) {
      for (const LabelAxis& axis : from.view) dims.push_back(axis.size);
      for (const LabelAxis& axis : order) perm.push_back(FindLabel(from.view, axis.label) - from.view.data());
      PermuteStep permute;
      CUDAEP_ASSIGN_OR_RETURN(permute.transpose, kernels::PlanTranspose(dims, perm, SizeOf(type_)));
      step.action = permute;
    } else {
      for (const LabelAxis& axis : order) {
        dims.push_back(axis.size);
        strides.push_back(FindLabel(from.view, axis.label)->stride);
      }
      GatherStep gather;
      CUDAEP_ASSIGN_OR_RETURN(gather.copy, kernels::MakeStridedCopy(dims, strides, 0, SizeOf(type_)));
      step.action = gather;
    }
    plan_->steps.push_back(std::move(step));
    return Status::Ok();
  }

  Status CopyToScratch(Operand* operand, const LabelView& order) {
    const Operand copy{Scratch(order), Dense(order)};
    CUDAEP_RETURN_IF_ERROR(Copy(*operand, copy.view, copy.buffer));
    *operand = copy;
    return Status::Ok();
  }

  // Sums an operand over the labels that nobody else asks for.
  Status SumAlone(size_t index) {
    Operand& operand = operands_[index];
    LabelView kept;
    for (const LabelAxis& axis : operand.view) {
      if (IsKept(axis.label, &operand, &operand)) kept.push_back(axis);
    }
    if (kept.size() == operand.view.size()) return Status::Ok();
    if (!IsDense(operand.view)) CUDAEP_RETURN_IF_ERROR(CopyToScratch(&operand, operand.view));
    Shape dims(static_cast<int>(operand.view.size()), 0);
    DimFlags reduced(operand.view.size());
    for (size_t i = 0; i < operand.view.size(); ++i) {
      dims[static_cast<int>(i)] = operand.view[i].size;
      reduced[i] = FindLabel(kept, operand.view[i].label) == nullptr;
    }
    const TensorView input{.dim = dims.data(), .rank = dims.rank(), .type = type_};
    SumStep sum{.kernel = kernels::FindReduceKernel(kernels::ReduceOp::kSum, type_)};
    if (sum.kernel == nullptr) return NotSupported("sums of element type ", DataTypeName(type_));
    const PlanContext context{
        .inputs = {&input, 1}, .outputs = {}, .runtime = context_.runtime, .device = context_.device};
    CUDAEP_ASSIGN_OR_RETURN(sum.plan, PlanReduction(kernels::ReduceOp::kSum, context, reduced, options_.deterministic));
    library_bytes_ = std::max(library_bytes_, sum.plan->workspace_bytes);
    const Operand result{Target(Dense(kept), operands_.size() == 1), Dense(kept)};
    plan_->steps.push_back({.a = operand.buffer, .to = result.buffer, .action = std::move(sum)});
    operand = result;
    return Status::Ok();
  }

  // What a pair costs: its products, then the elements of its result.
  std::pair<double, double> CostOf(const Operand& a, const Operand& b) const {
    std::pair<double, double> cost{1, 1};
    const auto count = [&](const LabelAxis& axis) {
      cost.first *= static_cast<double>(axis.size);
      if (IsKept(axis.label, &a, &b)) cost.second *= static_cast<double>(axis.size);
    };
    for (const LabelAxis& axis : a.view) count(axis);
    for (const LabelAxis& axis : b.view) {
      if (FindLabel(a.view, axis.label) == nullptr) count(axis);
    }
    return cost;
  }

  Status CombineCheapestPair() {
    size_t first = 0, second = 1;
    std::pair<double, double> best{std::numeric_limits<double>::infinity(), 0};
    for (size_t i = 0; i < operands_.size(); ++i) {
      for (size_t j = i + 1; j < operands_.size(); ++j) {
        const auto cost = CostOf(operands_[i], operands_[j]);
        if (cost < best) best = cost, first = i, second = j;
      }
    }
    std::vector<int> contracted;
    for (const LabelAxis& axis : operands_[first].view) {
      const bool common = FindLabel(operands_[second].view, axis.label) != nullptr;
      if (common && !IsKept(axis.label, &operands_[first], &operands_[second])) contracted.push_back(axis.label);
    }
    const bool last = operands_.size() == 2;
    Operand a = operands_[first], b = operands_[second];
    Result<Operand> result = contracted.empty() ? Multiply(std::move(a), std::move(b), last)
                                                : Contract(std::move(a), std::move(b), contracted, last);
    CUDAEP_RETURN_IF_ERROR(result.status());
    operands_[first] = std::move(result).value();
    operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(second));
    return Status::Ok();
  }

  // Broadcasts want operands without gaps, in the order of the result.
  Status Order(Operand* operand, const LabelView& result) {
    LabelView order;
    for (const LabelAxis& axis : result) {
      if (const LabelAxis* own = FindLabel(operand->view, axis.label)) order.push_back(*own);
    }
    return order == Dense(order) ? Status::Ok() : CopyToScratch(operand, order);
  }

  Result<Operand> Multiply(Operand a, Operand b, bool last) {
    LabelView view = a.view;
    for (const LabelAxis& axis : b.view) {
      if (FindLabel(a.view, axis.label) == nullptr) view.push_back(axis);
    }
    view = last ? output_ : Dense(std::move(view));
    CUDAEP_RETURN_IF_ERROR(Order(&a, view));
    CUDAEP_RETURN_IF_ERROR(Order(&b, view));
    std::vector<int64_t> dims, of_a, of_b;
    for (const LabelAxis& axis : view) {
      dims.push_back(axis.size);
      of_a.push_back(FindLabel(a.view, axis.label) == nullptr ? 1 : axis.size);
      of_b.push_back(FindLabel(b.view, axis.label) == nullptr ? 1 : axis.size);
    }
    MultiplyStep multiply;
    CUDAEP_ASSIGN_OR_RETURN(multiply.broadcast, kernels::MakeBroadcast<2>(dims, {Dims(of_a), Dims(of_b)}));
    const Operand result{Target(view, last), view};
    plan_->steps.push_back({.a = a.buffer, .b = b.buffer, .to = result.buffer, .action = multiply});
    return result;
  }

  Result<Operand> Contract(Operand a, Operand b, const std::vector<int>& contracted, bool last) {
    Contraction found = PlaceContraction(a.view, b.view, contracted, last ? &output_ : nullptr);
    if (found.packed_a) CUDAEP_RETURN_IF_ERROR(CopyToScratch(&a, *found.packed_a));
    if (found.packed_b) CUDAEP_RETURN_IF_ERROR(CopyToScratch(&b, *found.packed_b));
    found.problem.types = lib::MixedTypes::Of(type_);
    ProductStep product{.product = {}, .launches = std::move(found.launches)};
    CUDAEP_ASSIGN_OR_RETURN(product.product, MatrixProduct::Make(context_.runtime, found.problem, options_));
    library_bytes_ = std::max(library_bytes_, product.product.workspace_bytes());
    const auto size = static_cast<int64_t>(SizeOf(type_));
    for (GemmOffsets& offset : product.launches) offset.a *= size, offset.b *= size, offset.y *= size;
    if (found.swapped) std::swap(a, b);
    const Operand result{Target(found.result, last), found.result};
    plan_->steps.push_back({.a = a.buffer, .b = b.buffer, .to = result.buffer, .action = std::move(product)});
    return result;
  }

  const DataType type_;
  const ProductOptions& options_;
  const PlanContext& context_;
  std::unique_ptr<EinsumPlan> plan_;
  LabelView output_;
  std::vector<Operand> operands_;
  size_t library_bytes_ = 0;
};

}  // namespace

Result<PlanPtr> PlanEinsum(const EinsumLabels& labels, DataType type, const ProductOptions& options,
                           const PlanContext& context) {
  return Planner(labels, type, options, context).Run();
}

}  // namespace cudaep::ops
