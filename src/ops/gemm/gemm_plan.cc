#include "ops/gemm/gemm_plan.h"

#include <algorithm>
#include <utility>

#include "core/checked_math.h"

namespace cudaep::ops {
namespace {

// One operand as matrices inside batch dimensions, all with explicit strides.
struct Operand {
  int64_t rows = 1, columns = 1;  // of op(X)
  bool transpose = false;         // whether memory holds op(X)'s transpose
  int64_t ld = 1;
  std::vector<int64_t> batch, stride;
};

Operand ReadOperand(Dims dims, OperandForm form, bool is_left) {
  const size_t rank = dims.size();
  Operand x;
  if (rank == 1) {  // a row on the left, a column on the right
    (is_left ? x.columns : x.rows) = dims[0];
    x.ld = is_left ? dims[0] : 1;
    return x;
  }
  std::vector<int64_t> stride(rank, 1);
  for (size_t i = rank - 1; i > 0; --i) stride[i - 1] = stride[i] * dims[i];
  const bool rotated = form.transpose_batch && rank > 2;
  const size_t row_axis = rotated ? 0 : rank - 2;
  x.rows = dims[row_axis];
  x.columns = dims[rank - 1];
  x.ld = stride[row_axis];
  x.transpose = form.transpose;
  if (form.transpose) std::swap(x.rows, x.columns);
  const size_t first_batch = rotated ? 1 : 0;
  for (size_t i = first_batch; i < first_batch + rank - 2; ++i) {
    x.batch.push_back(dims[i]);
    x.stride.push_back(stride[i]);
  }
  return x;
}

using blas::BatchDim;

int64_t At(const std::vector<int64_t>& values, size_t from_innermost, int64_t fallback) {
  return from_innermost < values.size() ? values[values.size() - 1 - from_innermost] : fallback;
}

// Innermost first; `*sizes` gets the broadcast dimensions, outermost first.
Result<std::vector<BatchDim>> BroadcastBatch(const Operand& a, const Operand& b, int64_t matrix_elems,
                                             std::vector<int64_t>* sizes) {
  std::vector<BatchDim> dims;
  int64_t stride_y = matrix_elems;
  const size_t rank = std::max(a.batch.size(), b.batch.size());
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size_a = At(a.batch, i, 1), size_b = At(b.batch, i, 1);
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      return InvalidArgument("batch dimensions ", Dims(a.batch), " and ", Dims(b.batch), " do not broadcast");
    }
    const int64_t size = size_a == 1 ? size_b : size_a;
    sizes->insert(sizes->begin(), size);
    if (size == 1) continue;
    const BatchDim dim{size, size_a == 1 ? 0 : At(a.stride, i, 0), size_b == 1 ? 0 : At(b.stride, i, 0), stride_y};
    if (!CheckedMultiply(stride_y, size, &stride_y)) return InvalidArgument("the product has too many elements");
    const bool merges = !dims.empty() && dim.stride_a == dims.back().stride_a * dims.back().size &&
                        dim.stride_b == dims.back().stride_b * dims.back().size;
    if (merges) {
      dims.back().size *= size;
    } else {
      dims.push_back(dim);
    }
  }
  return dims;
}

// One shared B and rows of A that follow each other: a single tall product.
bool FoldsIntoRows(const BatchDim& dim, const blas::GemmProblem& p) {
  return dim.stride_b == 0 && !p.transpose_a && dim.stride_a == p.m * p.lda && dim.stride_c == p.m * p.ldc;
}

}  // namespace

std::vector<GemmOffsets> PlaceBatch(std::vector<BatchDim> dims, blas::GemmProblem* problem) {
  std::stable_sort(dims.begin(), dims.end(), [](const BatchDim& x, const BatchDim& y) { return x.size > y.size; });
  const size_t inside = std::min<size_t>(dims.size(), blas::kBatchRank);
  std::copy_n(dims.begin(), inside, problem->batch.begin());
  std::vector<GemmOffsets> offsets{{}};
  for (size_t d = inside; d < dims.size(); ++d) {
    const size_t inner = offsets.size();
    for (int64_t i = 1; i < dims[d].size; ++i) {
      for (size_t j = 0; j < inner; ++j) {
        offsets.push_back({offsets[j].a + i * dims[d].stride_a, offsets[j].b + i * dims[d].stride_b,
                           offsets[j].y + i * dims[d].stride_c});
      }
    }
  }
  return offsets;
}

Result<MatMulGeometry> PlaceMatMul(Dims a_dims, OperandForm a_form, Dims b_dims, OperandForm b_form) {
  if (a_dims.empty() || b_dims.empty()) {
    return InvalidArgument("a matrix product takes no scalar: A ", a_dims, ", B ", b_dims);
  }
  const Operand a = ReadOperand(a_dims, a_form, true), b = ReadOperand(b_dims, b_form, false);
  if (a.columns != b.rows) {
    return InvalidArgument("the inner dimensions of A ", a_dims, " and B ", b_dims, " differ: ", a.columns, " and ",
                           b.rows);
  }
  MatMulGeometry out;
  blas::GemmProblem& p = out.problem;
  p.m = a.rows, p.n = b.columns, p.k = a.columns;
  p.transpose_a = a.transpose, p.transpose_b = b.transpose;
  p.lda = a.ld, p.ldb = b.ld, p.ldc = b.columns;
  int64_t matrix_elems = 0;
  if (!CheckedMultiply(p.m, p.n, &matrix_elems)) return InvalidArgument("the product has too many elements");

  std::vector<int64_t> sizes;
  CUDAEP_ASSIGN_OR_RETURN(std::vector<BatchDim> dims, BroadcastBatch(a, b, matrix_elems, &sizes));
  if (a_dims.size() > 1) sizes.push_back(p.m);
  if (b_dims.size() > 1) sizes.push_back(p.n);
  out.output.Assign(sizes);
  CUDAEP_ASSIGN_OR_RETURN(const int64_t elems, CheckedElementCount(out.output));
  if (elems == 0) return out;

  if (!dims.empty() && FoldsIntoRows(dims.front(), p)) {
    p.m *= dims.front().size;
    dims.erase(dims.begin());
  }
  out.launches = PlaceBatch(std::move(dims), &p);
  return out;
}

Result<GemmGeometry> PlaceGemm(Dims a, bool transpose_a, Dims b, bool transpose_b, const Dims* c, float beta) {
  if (a.size() != 2 || b.size() != 2) return InvalidArgument("Gemm takes matrices, not A ", a, " and B ", b);
  GemmGeometry out;
  blas::GemmProblem& p = out.problem;
  p.transpose_a = transpose_a, p.transpose_b = transpose_b;
  p.m = a[transpose_a ? 1 : 0], p.k = a[transpose_a ? 0 : 1];
  p.n = b[transpose_b ? 0 : 1];
  if (b[transpose_b ? 1 : 0] != p.k) {
    return InvalidArgument("the inner dimensions of A ", a, transpose_a ? "^T" : "", " and B ", b,
                           transpose_b ? "^T" : "", " differ");
  }
  p.lda = a[1], p.ldb = b[1], p.ldc = p.n;
  if (c == nullptr) return out;
  const int64_t columns = c->empty() ? 1 : c->back();
  const int64_t rows = c->size() < 2 ? 1 : (*c)[0];
  if (c->size() > 2 || (rows != 1 && rows != p.m) || (columns != 1 && columns != p.n)) {
    return InvalidArgument("C ", *c, " does not broadcast to [", p.m, ',', p.n, ']');
  }
  if (beta == 0.0f) return out;
  const bool one_row = rows == 1 && columns == p.n, whole = rows == p.m && columns == p.n;
  out.addend = one_row && beta == 1.0f ? GemmAddend::kBias : whole ? GemmAddend::kResidual : GemmAddend::kBroadcast;
  out.c_column_stride = columns == 1 ? 0 : 1;
  out.c_row_stride = rows == 1 ? 0 : columns;
  if (out.addend == GemmAddend::kBias) {
    p.epilogue.bias = true;
  } else {
    p.epilogue.beta = beta;
  }
  return out;
}

}  // namespace cudaep::ops
