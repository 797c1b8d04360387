#include "ops/einsum/contraction.h"

#include <algorithm>
#include <limits>

#include "core/checked_math.h"

namespace cudaep::ops {
namespace {

// Elements that a launch costs as much as, and the rows and columns that a small product costs as much as.
constexpr double kLaunchElems = 1 << 18;
constexpr int64_t kLeastSide = 8;
constexpr size_t kMostLaunches = 256;

bool Contains(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int64_t StrideOf(const LabelView& view, int label) {
  const LabelAxis* axis = FindLabel(view, label);
  return axis == nullptr ? 0 : axis->stride;
}

// Neighbouring axes of a chain that one stride describes in both tensors.
bool Continues(const LabelAxis& outer, const LabelAxis& inner, const LabelView& other) {
  return outer.stride == inner.stride * inner.size &&
         StrideOf(other, outer.label) == StrideOf(other, inner.label) * inner.size;
}

// Axes [begin, end) of `view` taken as one dimension.
struct Chain {
  size_t begin = 0, end = 0;
  int64_t size = 1, stride = 0, other_stride = 0;  // of the innermost axis, in the two tensors
};

Chain MakeChain(const LabelView& view, size_t begin, size_t end, const LabelView& other) {
  Chain chain{.begin = begin, .end = end};
  for (size_t i = begin; i < end; ++i) chain.size *= view[i].size;
  if (begin == end) return chain;
  chain.stride = view[end - 1].stride;
  chain.other_stride = StrideOf(other, view[end - 1].label);
  return chain;
}

// Every run of `view` that is one dimension in both tensors, and the empty one.
std::vector<Chain> ChainsOf(const LabelView& view, const LabelView& other) {
  std::vector<Chain> chains{Chain{}};
  for (size_t end = view.size(); end > 0; --end) {
    for (size_t begin = end - 1;; --begin) {
      chains.push_back(MakeChain(view, begin, end, other));
      if (begin == 0 || !Continues(view[begin - 1], view[begin], other)) break;
    }
  }
  return chains;
}

// A matrix of `rows` x `columns` as the library takes it: one of its strides must be 1.
bool PlaceMatrix(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride, bool* transpose,
                 int64_t* ld) {
  *transpose = false;
  if (columns == 1 || column_stride == 1) {
    *ld = rows == 1 ? columns : row_stride;
    return *ld >= columns;
  }
  *transpose = true;
  *ld = column_stride;
  return (rows == 1 || row_stride == 1) && *ld >= rows;
}

// Which labels play which part. `rows` are the left operand's alone, `columns` the right one's.
struct Parts {
  LabelView left, right, result;
  LabelView rows, columns, batch, inner;  // with the strides of the result; inner with those of the left operand
};

Parts Divide(const LabelView& left, const LabelView& right, const LabelView& result,
             const std::vector<int>& contracted) {
  Parts parts{.left = left, .right = right, .result = result};
  for (const LabelAxis& axis : result) {
    const bool in_left = FindLabel(left, axis.label) != nullptr, in_right = FindLabel(right, axis.label) != nullptr;
    (in_left && in_right ? parts.batch : in_left ? parts.rows : parts.columns).push_back(axis);
  }
  for (const LabelAxis& axis : left) {
    if (Contains(contracted, axis.label)) parts.inner.push_back(axis);
  }
  return parts;
}

void AddBatch(const LabelView& axes, const Chain& chain, const Parts& parts, std::vector<blas::BatchDim>* dims) {
  for (size_t i = axes.size(); i-- > 0;) {
    if (i >= chain.begin && i < chain.end) continue;
    const blas::BatchDim dim{axes[i].size, StrideOf(parts.left, axes[i].label), StrideOf(parts.right, axes[i].label),
                             axes[i].stride};
    blas::BatchDim* last = dims->empty() ? nullptr : &dims->back();
    if (last != nullptr && dim.stride_a == last->stride_a * last->size && dim.stride_b == last->stride_b * last->size &&
        dim.stride_c == last->stride_c * last->size) {
      last->size *= dim.size;
    } else {
      dims->push_back(dim);
    }
  }
}

// The cheapest product without copies; nothing where strides allow none.
struct Placed {
  blas::GemmProblem problem;
  std::vector<GemmOffsets> launches;
  double cost = std::numeric_limits<double>::infinity();
};

std::optional<Placed> PlaceChains(const Parts& parts, const Chain& rows, const Chain& columns, const Chain& inner) {
  Placed placed;
  blas::GemmProblem& p = placed.problem;
  p.m = rows.size, p.n = columns.size, p.k = inner.size;
  const bool fits = PlaceMatrix(p.m, rows.other_stride, p.k, inner.stride, &p.transpose_a, &p.lda) &&
                    PlaceMatrix(p.k, inner.other_stride, p.n, columns.other_stride, &p.transpose_b, &p.ldb) &&
                    (p.n == 1 || columns.stride == 1);
  if (!fits) return std::nullopt;
  p.ldc = p.m == 1 ? p.n : rows.stride;
  std::vector<blas::BatchDim> dims;
  AddBatch(parts.batch, {}, parts, &dims);
  AddBatch(parts.columns, columns, parts, &dims);
  AddBatch(parts.rows, rows, parts, &dims);
  double batches = 1, launches = 1;
  for (const blas::BatchDim& dim : dims) batches *= static_cast<double>(dim.size);
  placed.launches = PlaceBatch(std::move(dims), &p);
  launches = static_cast<double>(placed.launches.size());
  if (placed.launches.size() > kMostLaunches) return std::nullopt;
  const auto m = static_cast<double>(std::max(p.m, kLeastSide)), n = static_cast<double>(std::max(p.n, kLeastSide));
  placed.cost = batches * (m * n + (m + n) * static_cast<double>(p.k)) + launches * kLaunchElems;
  return placed;
}

std::optional<Placed> PlaceInPlace(const Parts& parts) {
  const std::vector<Chain> inner = ChainsOf(parts.inner, parts.right);
  const auto whole = std::find_if(inner.begin(), inner.end(),
                                  [&](const Chain& chain) { return chain.end - chain.begin == parts.inner.size(); });
  if (whole == inner.end()) return std::nullopt;
  std::optional<Placed> best;
  for (const Chain& rows : ChainsOf(parts.rows, parts.left)) {
    for (const Chain& columns : ChainsOf(parts.columns, parts.right)) {
      std::optional<Placed> placed = PlaceChains(parts, rows, columns, *whole);
      if (placed && (!best || placed->cost < best->cost)) best = std::move(placed);
    }
  }
  return best;
}

LabelView Join(std::initializer_list<const LabelView*> views) {
  LabelView joined;
  for (const LabelView* view : views) joined.insert(joined.end(), view->begin(), view->end());
  return Dense(std::move(joined));
}

// The axes of `view` that are in neither list of labels, or the ones that are.
LabelView Select(const LabelView& view, const LabelView& labels, bool present) {
  LabelView selected;
  for (const LabelAxis& axis : view) {
    if ((FindLabel(labels, axis.label) != nullptr) == present) selected.push_back(axis);
  }
  return selected;
}

struct Choice {
  bool swapped, pack_left, pack_right, free_result, inner_of_right;
};

// The contraction as the choice says, with the cost of copies in `*cost`.
std::optional<Contraction> Attempt(const Choice& choice, const LabelView& a, const LabelView& b,
                                   const std::vector<int>& contracted, const LabelView* wanted, double* cost) {
  LabelView left = choice.swapped ? b : a, right = choice.swapped ? a : b;
  Contraction out{.swapped = choice.swapped};
  LabelView inner;
  for (const LabelAxis& axis : choice.inner_of_right ? right : left) {
    if (Contains(contracted, axis.label)) inner.push_back(axis);
  }
  const LabelView left_kept = Select(left, inner, false), right_kept = Select(right, inner, false);
  const LabelView batch = Select(left_kept, right, true), rows = Select(left_kept, right, false);
  const LabelView columns = Select(right_kept, left, false);
  *cost = 0;
  const bool is_free = choice.free_result || wanted == nullptr;
  out.result = is_free ? Join({&batch, &rows, &columns}) : *wanted;
  if (choice.free_result) *cost += 2.0 * static_cast<double>(Elements(out.result)) + kLaunchElems;
  const LabelView order_rows = Select(out.result, rows, true), order_columns = Select(out.result, columns, true);
  auto& packed_left = choice.swapped ? out.packed_b : out.packed_a;
  auto& packed_right = choice.swapped ? out.packed_a : out.packed_b;
  if (choice.pack_left) {
    *cost += 2.0 * static_cast<double>(Elements(left)) + kLaunchElems;
    packed_left = left = Join({&batch, &order_rows, &inner});
  }
  if (choice.pack_right) {
    *cost += 2.0 * static_cast<double>(Elements(right)) + kLaunchElems;
    packed_right = right = Join({&batch, &inner, &order_columns});
  }
  std::optional<Placed> placed = PlaceInPlace(Divide(left, right, out.result, contracted));
  if (!placed) return std::nullopt;
  *cost += placed->cost;
  out.problem = placed->problem;
  out.launches = std::move(placed->launches);
  return out;
}

}  // namespace

LabelView Dense(LabelView axes) {
  int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->size;
  }
  return axes;
}

bool IsDense(const LabelView& view) { return view == Dense(view); }

int64_t Elements(const LabelView& view) {
  int64_t elems = 1;
  for (const LabelAxis& axis : view) elems *= axis.size;
  return elems;
}

const LabelAxis* FindLabel(const LabelView& view, int label) {
  const auto axis = std::find_if(view.begin(), view.end(), [&](const LabelAxis& x) { return x.label == label; });
  return axis == view.end() ? nullptr : &*axis;
}

// Copies of both operands and of the result always lead to one product, so there is a best choice.
Contraction PlaceContraction(const LabelView& a, const LabelView& b, const std::vector<int>& contracted,
                             const LabelView* wanted) {
  Contraction best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (int bits = 0; bits < 32; ++bits) {
    const Choice choice{.swapped = (bits & 1) != 0,
                        .pack_left = (bits & 4) != 0,
                        .pack_right = (bits & 8) != 0,
                        .free_result = (bits & 16) != 0,
                        .inner_of_right = (bits & 2) != 0};
    if (choice.free_result && wanted == nullptr) continue;
    double cost = 0;
    std::optional<Contraction> found = Attempt(choice, a, b, contracted, wanted, &cost);
    if (found && cost < best_cost) {
      best_cost = cost;
      best = std::move(*found);
    }
  }
  return best;
}

}  // namespace cudaep::ops
