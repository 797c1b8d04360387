// com.microsoft's MatMulNBits: a product with weights of 2, 4 or 8 bits. Constant weights, scales and zero points are
// packed.
#include "kernels/quant/matmul_nbits.h"

#include <bit>
#include <optional>

#include "kernels/movement/transpose.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/library_limits.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kA, kB, kScales, kZeroPoints, kGroups, kBias };

struct NBitsPlan : Plan {
  bool tensor_cores = false;
  // For many rows: the weights as a matrix, and the library's product with it.
  std::optional<MatrixProduct> product;
  size_t matrix = 0, product_workspace = 0;
};

class MatMulNBits final : public Operator {
 public:
  MatMulNBits(const kernels::MatMulNBits& problem, const Settings& settings) : problem_(problem), options_(settings) {
    options_.constant_b = true;  // scratch memory, which is aligned
  }

  static Result<std::unique_ptr<MatMulNBits>> Create(const OpInfo& info) {
    kernels::MatMulNBits problem{.type = info.input_type(kA),
                                 .bits = static_cast<int>(info.IntOr("bits", 4)),
                                 .n = info.IntOr("N", 0),
                                 .k = info.IntOr("K", 0),
                                 .block = info.IntOr("block_size", 0)};
    if (info.IntOr("weight_prepacked", 0) != 0) return NotSupported("weight_prepacked, the layout of another kernel");
    if (!FitsInt32(problem.n) || !FitsInt32(problem.k) || !FitsInt32(problem.block)) {
      return NotSupported("K ", problem.k, ", N ", problem.n, " or block_size ", problem.block, " beyond 2^31");
    }
    if (problem.n <= 0 || problem.k <= 0) return InvalidArgument("K ", problem.k, " and N ", problem.n, " must be > 0");
    if (problem.bits != 2 && problem.bits != 4 && problem.bits != 8) {
      return NotSupported("bits ", problem.bits, "; 2, 4 and 8 are offered");
    }
    if (problem.block < 16 || !std::has_single_bit(static_cast<uint64_t>(problem.block))) {
      return InvalidArgument("block_size ", problem.block, " must be a power of two from 16 on");
    }
    if (info.has_input(kZeroPoints)) {
      const DataType type = info.input_type(kZeroPoints);
      if (type != DataType::kUint8 && type != problem.type) {
        return NotSupported("zero points of type ", DataTypeName(type), " beside ", DataTypeName(problem.type));
      }
      problem.zero_point =
          type == DataType::kUint8 ? kernels::NBitsZeroPoint::kPacked : kernels::NBitsZeroPoint::kFloating;
    }
    return std::make_unique<MatMulNBits>(problem, info.settings());
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const kernels::MatMulNBits& p = problem_;
    const TensorView& a = inputs[kA];
    if (a.rank == 0 || a.dim[a.rank - 1] != p.k) return InvalidArgument("A ", a.dims(), " does not end with K ", p.k);
    CUDAEP_RETURN_IF_ERROR(CheckElems(inputs, kB, "B", p.n * p.words() * 4));
    CUDAEP_RETURN_IF_ERROR(CheckElems(inputs, kScales, "scales", p.n * p.blocks()));
    const bool packed = p.zero_point == kernels::NBitsZeroPoint::kPacked;
    CUDAEP_RETURN_IF_ERROR(
        CheckElems(inputs, kZeroPoints, "zero_points", p.n * (packed ? p.zero_point_bytes() : p.blocks())));
    CUDAEP_RETURN_IF_ERROR(CheckElems(inputs, kBias, "bias", p.n));
    if (HasInput(inputs, kGroups) && inputs[kGroups].elems() < p.k) {
      return InvalidArgument("g_idx ", inputs[kGroups].dims(), " is shorter than K ", p.k);
    }
    outputs[0].Assign(a.dims());
    outputs[0][a.rank - 1] = p.n;
    return Status::Ok();
  }

  // The words (scales, zero points) of a column follow each other; packed, those of a row do.
  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    if (index != kB && index != kScales && index != kZeroPoints) return size_t{0};
    const auto [units, bytes] = UnitsOfColumn(index);
    const size_t total = static_cast<size_t>(problem_.n * units) * bytes;
    return weight.bytes() == total ? total : size_t{0};
  }

  Status Pack(int index, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    const auto [units, bytes] = UnitsOfColumn(index);
    CUDAEP_ASSIGN_OR_RETURN(const kernels::TransposePlan plan,
                            kernels::PlanTranspose(Shape{problem_.n, units}, Shape{1, 0}, bytes));
    return kernels::LaunchTranspose(plan, weight.data, packed, runtime.stream());
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<NBitsPlan>();
    plan->cost_flops = ProductFlops(context.outputs[0], problem_.k);
    const kernels::MatMulNBits problem = ProblemOf(context.inputs, context.outputs[0]);
    if (HasInput(context.inputs, kGroups)) return PlanPtr(std::move(plan));
    plan->tensor_cores = kernels::FitsNBitsTensorCores(problem, context.device);
    if (plan->tensor_cores || problem.m < kernels::kNBitsMatrixRows) return PlanPtr(std::move(plan));
    // Without room for the matrix the plain kernel does it.
    const size_t matrix_bytes = static_cast<size_t>(problem_.k * problem_.n) * SizeOf(problem_.type);
    if (matrix_bytes > AvailableWorkspace(context.runtime, options_.deterministic)) return PlanPtr(std::move(plan));
    CUDAEP_ASSIGN_OR_RETURN(MatMulGeometry geometry,
                            PlaceMatMul(Shape{problem.m, problem_.k}, {}, Shape{problem_.k, problem_.n}, {}));
    geometry.problem.types = lib::MixedTypes::Of(problem_.type);
    geometry.problem.epilogue.bias = HasInput(context.inputs, kBias);
    CUDAEP_ASSIGN_OR_RETURN(plan->product, MatrixProduct::Make(context.runtime, geometry.problem, options_));
    plan->matrix = plan->AddScratch(matrix_bytes);
    plan->product_workspace = plan->AddScratch(plan->product->workspace_bytes());
    return PlanPtr(std::move(plan));
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<NBitsPlan>(plan);
    const kernels::MatMulNBits problem = ProblemOf(context.inputs, plan.outputs[0]);
    const auto optional = [&](int index) { return HasInput(context.inputs, index) ? context.input(index) : nullptr; };
    const kernels::MatMulNBitsPointers at{.a = context.input(kA),
                                          .b = context.input(kB),
                                          .scales = context.input(kScales),
                                          .zero_points = optional(kZeroPoints),
                                          .groups = static_cast<const int32_t*>(optional(kGroups)),
                                          .bias = optional(kBias),
                                          .y = context.output(0)};
    if (p.tensor_cores) {
      return kernels::LaunchMatMulNBitsTensorCores(problem, at, context.runtime.device_info(), context.stream());
    }
    const bool many = problem.m >= kernels::kNBitsMatrixRows;
    if (kernels::IsPlainNBits(at) || (many && !p.product)) {
      return kernels::LaunchMatMulNBits(problem, at, context.stream());
    }
    if (!p.product) return kernels::LaunchMatMulNBitsRows(problem, at, context.stream());
    void* const matrix = context.scratch(p.matrix);
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchDequantizeNBits(problem, at, matrix, context.stream()));
    return p.product->Enqueue(
        context.runtime,
        {.a = at.a, .b = matrix, .c = at.y, .bias = at.bias, .workspace = context.scratch(p.product_workspace)});
  }

 private:
  kernels::MatMulNBits ProblemOf(TensorViews inputs, const Shape& y) const {
    kernels::MatMulNBits problem = problem_;
    problem.m = y.elems() / problem.n;
    problem.packed = inputs[kB].packed;
    problem.packed_scales = inputs[kScales].packed;
    problem.packed_zero_points = HasInput(inputs, kZeroPoints) && inputs[kZeroPoints].packed;
    return problem;
  }

  // Of an input that is packed: how many of how many bytes a column has.
  std::pair<int64_t, size_t> UnitsOfColumn(int index) const {
    if (index == kB) return {problem_.words(), sizeof(uint32_t)};
    const bool bytes = index == kZeroPoints && problem_.zero_point == kernels::NBitsZeroPoint::kPacked;
    return bytes ? std::pair{problem_.zero_point_bytes(), size_t{1}}
                 : std::pair{problem_.blocks(), SizeOf(problem_.type)};
  }

  // Models give some of these tensors flat and some with dimensions of their own.
  static Status CheckElems(TensorViews inputs, int index, const char* name, int64_t elems) {
    if (!HasInput(inputs, index)) return Status::Ok();
    const TensorView& input = inputs[static_cast<size_t>(index)];
    if (input.elems() == elems) return Status::Ok();
    return InvalidArgument(name, " ", input.dims(), " must have ", elems, " elements");
  }

  const kernels::MatMulNBits problem_;  // without m
  ProductOptions options_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "MatMulNBits",
     .types = {{"T1", kFloatTypesNoDouble},
               {"T2", DataType::kUint8},
               {"T3", kFloatTypesNoDouble | DataTypeSet(DataType::kUint8)},
               {"T4", DataType::kInt32}},
     .make = Make<MatMulNBits>},
});

}  // namespace
}  // namespace cudaep::ops
