// What the kernels of layer and RMS normalisation read and write.
#pragma once

#include <algorithm>

#include "device/launch.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/fast_divide.h"
#include "kernels/norm/layer_norm.h"

namespace cudaep::kernels {

// A scale or a shift, one row or several, that the input's elements find by AffineMap. Rows beyond the 31 bits that the
// dividers take are divided for real.
template <class V>
struct AffineInput {
  const V* data;
  AffineMap map;
  FastDivider row_repeat, rows, column_repeat, columns;

  // The row that belongs to one of the input's.
  __device__ __forceinline__ const V* Row(int64_t row) const {
    if (data == nullptr || map.rows == 1) return data;
    if (row >= int64_t{1} << 31) return data + row / map.row_repeat % map.rows * map.columns;
    uint32_t index;
    rows.DivideWithRemainder(row_repeat.Divide(static_cast<uint32_t>(row)), &index);
    return data + index * map.columns;
  }
};

// What the kernels read, and the sizes. Outputs are arguments of their own, so that they count as written.
template <class T, class V>
struct LayerNormInput {
  const T* x;
  const T* skip;
  const T* bias;
  AffineInput<V> scale, beta;
  int64_t rows, skip_rows;
  // What is asked for first lies together: a line of arguments that is not in the cache yet costs 0.1 us.
  int32_t elems, row_packs, constant_affine;
  RowStatistic statistic;
  ComputeType<T> epsilon, inverse_elems;  // inverse_elems: 1 / elems
  int32_t double_statistics, padding;     // whole words: padding would hold whatever the stack did

  __device__ __forceinline__ bool centred() const {
    return statistic == RowStatistic::kRms || statistic == RowStatistic::kL2;
  }
};

template <class T>
struct LayerNormOutput {
  void* y;
  T* sum;
  void* mean;
  void* inv_std;
};

template <class V>
AffineInput<V> MakeAffine(const void* data, const AffineMap& map) {
  const auto divider = [](int64_t by) {
    return FastDivider(static_cast<uint32_t>(std::clamp<int64_t>(by, 1, int64_t{1} << 31)));
  };
  return {static_cast<const V*>(data), map, divider(map.row_repeat), divider(map.rows), divider(map.column_repeat),
          divider(map.columns)};
}

template <class T, class V>
LayerNormInput<T, V> MakeLayerNormInput(const LayerNormArgs& args, int pack) {
  return {.x = static_cast<const T*>(args.x),
          .skip = static_cast<const T*>(args.skip),
          .bias = static_cast<const T*>(args.bias),
          .scale = MakeAffine<V>(args.scale, args.scale_map),
          .beta = MakeAffine<V>(args.beta, args.beta_map),
          .rows = args.rows,
          .skip_rows = args.skip_rows,
          .elems = static_cast<int32_t>(args.elems),
          .row_packs = static_cast<int32_t>(args.elems / pack),
          .constant_affine = args.constant_affine ? 1 : 0,
          .statistic = args.statistic,
          .epsilon = static_cast<ComputeType<T>>(args.epsilon),
          .inverse_elems = ComputeType<T>(1) / static_cast<ComputeType<T>>(std::max<int64_t>(args.elems, 1)),
          .double_statistics = args.double_statistics ? 1 : 0,
          .padding = 0};
}

// Where an input's pack finds its scale and shift. Packs are planned for maps that give one of them as many columns as
// it has, or a single one.
enum class AffineForm : uint8_t {
  kNone,      // there are none
  kColumns,   // a scale for each column, and perhaps a shift
  kChannels,  // one of each for the whole pack
  kMixed,     // anything else
};

template <class T, class V>
CUDAEP_HOST_DEVICE AffineForm FormOf(const LayerNormInput<T, V>& in) {
  if (in.scale.data == nullptr && in.beta.data == nullptr) return AffineForm::kNone;
  const bool scale_columns = in.scale.map.columns == in.elems, beta_columns = in.beta.map.columns == in.elems;
  if (in.scale.data == nullptr) return AffineForm::kMixed;
  if (scale_columns && (beta_columns || in.beta.data == nullptr)) return AffineForm::kColumns;
  return scale_columns || beta_columns || in.beta.data == nullptr ? AffineForm::kMixed : AffineForm::kChannels;
}

// All rows share a scale for each column, and a shift if there is one.
template <class T>
bool HasSharedColumns(const LayerNormInput<T, T>& in) {
  return FormOf(in) == AffineForm::kColumns && in.scale.map.rows == 1 &&
         (in.beta.data == nullptr || in.beta.map.rows == 1);
}

// Calls use.operator()<form>(): once for many packs.
template <class T, class V, class Use>
__device__ __forceinline__ void WithAffineForm(const LayerNormInput<T, V>& in, Use&& use) {
  const AffineForm form = FormOf(in);
  if (form == AffineForm::kNone) {
    use.template operator()<AffineForm::kNone>();
  } else if (form == AffineForm::kColumns) {
    use.template operator()<AffineForm::kColumns>();
  } else if (form == AffineForm::kChannels) {
    use.template operator()<AffineForm::kChannels>();
  } else {
    use.template operator()<AffineForm::kMixed>();
  }
}

template <int kPack, class V>
__device__ __forceinline__ ComputeType<V> ChannelOf(const AffineInput<V>& affine, const V* row, int column) {
  uint32_t index = affine.column_repeat.Divide(static_cast<uint32_t>(column));
  if constexpr (kPack == 1) affine.columns.DivideWithRemainder(index, &index);
  return Load(row[index]);
}

template <int kPack, AffineForm kForm, class V>
__device__ __forceinline__ void LoadAffine(const AffineInput<V>& affine, const V* row, int column, int32_t elems,
                                           float otherwise, ComputeType<V> (&value)[kPack]) {
  if (row != nullptr &&
      (kForm == AffineForm::kColumns || (kForm == AffineForm::kMixed && affine.map.columns == elems))) {
    UnpackCompute<V, kPack>(LoadRaw<kPack>(row + column), value);
    return;
  }
  ComputeType<V> one = otherwise;
  if constexpr (kForm == AffineForm::kChannels || kForm == AffineForm::kMixed) {
    if (row != nullptr) one = ChannelOf<kPack>(affine, row, column);
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) value[k] = one;
}

// The rows of scale and shift that belong to one of the input's.
template <class V>
struct AffineRows {
  const V* scale;
  const V* beta;

  template <class T>
  __device__ __forceinline__ AffineRows(const LayerNormInput<T, V>& in, int64_t row)
      : scale(in.scale.Row(row)), beta(in.beta.Row(row)) {}
};

// 1 / sqrt(x), as good as results of type T want it.
template <class T>
__device__ __forceinline__ ComputeType<T> InverseRoot(ComputeType<T> x) {
  if constexpr (sizeof(T) == 2) {
    return rsqrtf(x);
  } else {
    return ComputeType<T>(1) / std::sqrt(x);
  }
}

// One over what a row's elements are divided by, from the sum of their squared deviations.
template <class T>
__device__ __forceinline__ ComputeType<T> InverseOf(RowStatistic statistic, ComputeType<T> squares,
                                                    ComputeType<T> inverse_elems, ComputeType<T> epsilon) {
  using C = ComputeType<T>;
  if (statistic == RowStatistic::kDeviation) return C(1) / (std::sqrt(squares * inverse_elems) + epsilon);
  if (statistic == RowStatistic::kL2) return squares == C(0) ? C(0) : InverseRoot<T>(squares);
  return InverseRoot<T>(squares * inverse_elems + epsilon);
}

template <class T, class V, class C>
__device__ __forceinline__ void WriteStatistic(const LayerNormInput<T, V>& in, void* out, int64_t row, C value) {
  if (out == nullptr) return;
  if (in.double_statistics) {
    static_cast<double*>(out)[row] = value;
  } else {
    static_cast<float*>(out)[row] = static_cast<float>(value);
  }
}

// Scale and shift of a pack.
template <int kPack, class V>
struct PackAffine {
  ComputeType<V> factor[kPack], term[kPack];

  template <AffineForm kForm, class T>
  __device__ __forceinline__ void Load(const LayerNormInput<T, V>& in, const AffineRows<V>& rows, int column) {
    LoadAffine<kPack, kForm>(in.scale, rows.scale, column, in.elems, 1, factor);
    LoadAffine<kPack, kForm>(in.beta, rows.beta, column, in.elems, 0, term);
  }
  template <class C>
  __device__ __forceinline__ RawPack<V, kPack> Apply(const C (&value)[kPack], C mean, C inv_std) const {
    ComputeType<V> y[kPack];
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      y[k] = static_cast<ComputeType<V>>((value[k] - mean) * inv_std * factor[k] + term[k]);
    }
    return PackCompute<V, kPack>(y);
  }
};

}  // namespace cudaep::kernels
