#include "ops/quant/nbits_product.h"

#include <bit>

#include "kernels/movement/transpose.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/library_limits.h"
#include "ops/optional_input.h"

namespace cudaep::ops {
namespace {

// Models give some of these tensors flat and some with dimensions of their own.
Status CheckElems(TensorViews inputs, int index, const char* name, int64_t elems) {
  const TensorView input = InputAt(inputs, index);
  if (!input.present() || input.elems() == elems) return Status::Ok();
  return InvalidArgument(name, " ", input.dims(), " must have ", elems, " elements");
}

}  // namespace

Result<NBitsProduct> NBitsProduct::Make(const OpInfo& info, const NBitsInputs& at) {
  kernels::MatMulNBits problem{.type = info.input_type(at.a),
                               .bits = static_cast<int>(info.IntOr("bits", 4)),
                               .n = info.IntOr("N", 0),
                               .k = info.IntOr("K", 0),
                               .block = info.IntOr("block_size", 0)};
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
  if (at.zero_points >= 0 && info.has_input(at.zero_points)) {
    const DataType type = info.input_type(at.zero_points);
    if (type != DataType::kUint8 && type != problem.type) {
      return NotSupported("zero points of type ", DataTypeName(type), " beside ", DataTypeName(problem.type));
    }
    problem.zero_point =
        type == DataType::kUint8 ? kernels::NBitsZeroPoint::kPacked : kernels::NBitsZeroPoint::kFloating;
  }
  NBitsProduct product;
  product.problem_ = problem;
  product.at_ = at;
  product.options_ = ProductOptions(info.settings());
  product.options_.constant_b = true;  // scratch memory, which is aligned
  return product;
}

Status NBitsProduct::InferShape(TensorViews inputs, Shape& y) const {
  const kernels::MatMulNBits& p = problem_;
  const TensorView a = InputAt(inputs, at_.a), groups = InputAt(inputs, at_.groups);
  if (a.rank == 0 || a.dim[a.rank - 1] != p.k) return InvalidArgument("A ", a.dims(), " does not end with K ", p.k);
  CUDAEP_RETURN_IF_ERROR(CheckElems(inputs, at_.b, "B", p.n * p.words() * 4));
  CUDAEP_RETURN_IF_ERROR(CheckElems(inputs, at_.scales, "scales", p.n * p.blocks()));
  const bool packed = p.zero_point == kernels::NBitsZeroPoint::kPacked;
  CUDAEP_RETURN_IF_ERROR(
      CheckElems(inputs, at_.zero_points, "zero_points", p.n * (packed ? p.zero_point_bytes() : p.blocks())));
  CUDAEP_RETURN_IF_ERROR(CheckElems(inputs, at_.bias, "bias", p.n));
  if (groups.present() && groups.elems() < p.k) {
    return InvalidArgument("g_idx ", groups.dims(), " is shorter than K ", p.k);
  }
  y.Assign(a.dims());
  y[a.rank - 1] = p.n;
  return Status::Ok();
}

// The words (scales, zero points) of a column follow each other; packed, those of a row do.
Result<size_t> NBitsProduct::PackedBytes(int index, const TensorView& weight) const {
  if (index != at_.b && index != at_.scales && index != at_.zero_points) return size_t{0};
  const auto [units, bytes] = UnitsOfColumn(index);
  const size_t total = static_cast<size_t>(problem_.n * units) * bytes;
  return weight.bytes() == total ? total : size_t{0};
}

Status NBitsProduct::Pack(int index, const TensorView& weight, void* packed, StreamContext& runtime) const {
  const auto [units, bytes] = UnitsOfColumn(index);
  CUDAEP_ASSIGN_OR_RETURN(const kernels::TransposePlan plan,
                          kernels::PlanTranspose(Shape{problem_.n, units}, Shape{1, 0}, bytes));
  return kernels::LaunchTranspose(plan, weight.data, packed, runtime.stream());
}

kernels::MatMulNBits NBitsProduct::Problem(TensorViews inputs, const Shape& y) const {
  kernels::MatMulNBits problem = problem_;
  problem.m = y.elems() / problem.n;
  problem.packed = InputAt(inputs, at_.b).packed;
  problem.packed_scales = InputAt(inputs, at_.scales).packed;
  problem.packed_zero_points = InputAt(inputs, at_.zero_points).packed;
  return problem;
}

kernels::MatMulNBitsPointers NBitsProduct::Pointers(const OpContext& context, void* y) const {
  const auto data = [&](int index) -> const void* {
    const TensorView input = InputAt(context.inputs, index);
    return input.present() ? input.data : nullptr;
  };
  return {.a = data(at_.a),
          .b = data(at_.b),
          .scales = data(at_.scales),
          .zero_points = data(at_.zero_points),
          .groups = static_cast<const int32_t*>(data(at_.groups)),
          .bias = data(at_.bias),
          .y = y};
}

Result<NBitsWay> NBitsProduct::MakeWay(const PlanContext& context, Plan& plan) const {
  NBitsWay way;
  const kernels::MatMulNBits problem = Problem(context.inputs, context.outputs[0]);
  if (HasInput(context.inputs, at_.groups)) return way;
  way.tensor_cores = kernels::FitsNBitsTensorCores(problem, context.device);
  if (way.tensor_cores || problem.m < kernels::kNBitsMatrixRows) return way;
  // Without room for the matrix the plain kernel does it.
  const size_t matrix_bytes = static_cast<size_t>(problem.k * problem.n) * SizeOf(problem.type);
  const size_t available = AvailableWorkspace(context.runtime, options_.deterministic);
  if (plan.workspace_bytes + matrix_bytes > available) return way;
  CUDAEP_ASSIGN_OR_RETURN(MatMulGeometry geometry,
                          PlaceMatMul(Shape{problem.m, problem.k}, {}, Shape{problem.k, problem.n}, {}));
  geometry.problem.types = lib::MixedTypes::Of(problem.type);
  geometry.problem.epilogue.bias = HasInput(context.inputs, at_.bias);
  CUDAEP_ASSIGN_OR_RETURN(way.product, MatrixProduct::Make(context.runtime, geometry.problem, options_));
  way.matrix = plan.AddScratch(matrix_bytes);
  way.product_workspace = plan.AddScratch(way.product->workspace_bytes());
  return way;
}

Status NBitsProduct::Enqueue(const NBitsWay& way, const kernels::MatMulNBits& problem,
                             const kernels::MatMulNBitsPointers& at, const OpContext& context) const {
  if (way.tensor_cores) {
    return kernels::LaunchMatMulNBitsTensorCores(problem, at, context.runtime.device_info(), context.stream());
  }
  const bool many = problem.m >= kernels::kNBitsMatrixRows;
  if (kernels::IsPlainNBits(at) || (many && !way.product)) {
    return kernels::LaunchMatMulNBits(problem, at, context.stream());
  }
  if (!way.product) return kernels::LaunchMatMulNBitsRows(problem, at, context.stream());
  void* const matrix = context.scratch(way.matrix);
  CUDAEP_RETURN_IF_ERROR(kernels::LaunchDequantizeNBits(problem, at, matrix, context.stream()));
  return way.product->Enqueue(
      context.runtime,
      {.a = at.a, .b = matrix, .c = at.y, .bias = at.bias, .workspace = context.scratch(way.product_workspace)});
}

// Of an input that is packed: how many of how many bytes a column has.
std::pair<int64_t, size_t> NBitsProduct::UnitsOfColumn(int index) const {
  if (index == at_.b) return {problem_.words(), sizeof(uint32_t)};
  const bool bytes = index == at_.zero_points && problem_.zero_point == kernels::NBitsZeroPoint::kPacked;
  return bytes ? std::pair{problem_.zero_point_bytes(), size_t{1}}
               : std::pair{problem_.blocks(), SizeOf(problem_.type)};
}

}  // namespace cudaep::ops
