#include "lib/sim/conv_host.h"

#include <algorithm>
#include <cstring>

#include "core/checked_math.h"
#include "core/float16.h"
#include "lib/problem_check.h"
#include "lib/sim/conv_depthwise.h"
#include "lib/sim/conv_geometry.h"
#include "lib/sim/host_activation.h"
#include "lib/sim/host_gemm.h"

namespace cudaep::sim {
namespace {

using dnn::ConvPointers;
using dnn::ConvProblem;
using dnn::Direction;
using dnn::Layout;

size_t ComputeBytes(DataType type) { return type == DataType::kDouble ? 8 : 4; }
bool IsWidened(DataType type) { return kFloat16Types.Contains(type); }

// What of the scratch is needed: weights are repacked when transposed or 16-bit, a result tile only for 16-bit or an
// epilogue, and the column matrix not where the input already is one.
bool PacksWeights(const ConvProblem& p) { return p.direction == Direction::kBackward || IsWidened(p.types.a); }
bool ReadsInputDirectly(const ConvProblem& p, const Geometry& g) { return g.pointwise && !IsWidened(p.types.a); }

int64_t PackedElems(const ConvProblem& p, const Geometry& g) { return PacksWeights(p) ? g.group_out * g.depth() : 0; }
int64_t ColumnElems(const ConvProblem& p, const Geometry& g, int64_t pixels) {
  return ReadsInputDirectly(p, g) ? 0 : g.depth() * pixels;
}
int64_t ResultElems(const ConvProblem& p, const Geometry& g, int64_t pixels) {
  return IsWidened(p.types.a) || !p.epilogue.empty() ? g.group_out * pixels : 0;
}

struct Tile {
  int64_t row = 0, rows = 1, column = 0, columns = 1;
  int64_t pixels() const { return rows * columns; }
};

template <class T>
class Convolution {
 public:
  using C = ComputeType<T>;

  Convolution(const ConvProblem& p, const ConvTiling& tiling, const ConvPointers& at)
      : p_(p), g_(p), tiling_(tiling), last_(p.layout == Layout::kChannelsLast) {
    x_ = static_cast<const T*>(at.x);
    w_ = static_cast<const T*>(at.w);
    bias_ = p.epilogue.bias ? static_cast<const T*>(at.bias) : nullptr;
    residual_ = p.epilogue.residual() ? static_cast<const T*>(at.residual) : nullptr;
    y_ = static_cast<T*>(at.y);
    packed_ = static_cast<C*>(at.workspace);
    column_ = packed_ + PackedElems(p_, g_);
    result_ = column_ + ColumnElems(p_, g_, tiling.rows * tiling.columns);
  }

  void Run() {
    const int64_t width = g_.axes[2].out, rows = g_.out_plane / width;
    for (int64_t group = 0; group < p_.groups; ++group) {
      const C* weights = Weights(group);
      for (int64_t n = 0; n < p_.batch; ++n) {
        for (int64_t row = 0; row < rows; row += tiling_.rows) {
          for (int64_t column = 0; column < width; column += tiling_.columns) {
            RunTile(weights, n, group,
                    {row, std::min(tiling_.rows, rows - row), column, std::min(tiling_.columns, width - column)});
          }
        }
      }
    }
  }

 private:
  // The group's weights as [out][in][taps], or [out][taps][in] for channels last.
  const C* Weights(int64_t group) {
    const int64_t size = g_.group_out * g_.depth();
    const T* source = w_ + group * size;
    if constexpr (std::is_same_v<T, C>) {
      if (!PacksWeights(p_)) return source;
    }
    const bool forward = p_.direction == Direction::kForward;
    for (int64_t k = 0; k < g_.group_out; ++k) {
      for (int64_t c = 0; c < g_.group_in; ++c) {
        for (int64_t r = 0; r < g_.taps; ++r) {
          const int64_t outer = forward ? k : c, inner = forward ? c : k;
          const int64_t inners = forward ? g_.group_in : g_.group_out;
          const int64_t from = last_ ? (outer * g_.taps + r) * inners + inner : (outer * inners + inner) * g_.taps + r;
          const int64_t to = k * g_.depth() + (last_ ? r * g_.group_in + c : c * g_.taps + r);
          packed_[to] = Load(source[from]);
        }
      }
    }
    return packed_;
  }

  const T* Input(int64_t n, int64_t channel) const {
    return x_ + n * p_.in_channels * g_.in_plane + (last_ ? channel : channel * g_.in_plane);
  }

  void RunTile(const C* weights, int64_t n, int64_t group, const Tile& tile) {
    const int64_t pixel = tile.row * g_.axes[2].out + tile.column;
    const int64_t out_channel = group * g_.group_out;
    const C* columns = column_;
    int64_t column_ld = last_ ? g_.depth() : tile.pixels();
    if (ReadsInputDirectly(p_, g_)) {
      if constexpr (std::is_same_v<T, C>) {
        columns = Input(n, group * g_.group_in) + (last_ ? pixel * p_.in_channels : pixel);
        column_ld = last_ ? p_.in_channels : g_.in_plane;
      }
    } else if (last_) {
      FillChannelsLast(n, group, tile);
    } else {
      FillChannelsFirst(n, group, tile);
    }
    const int64_t at = n * p_.out_channels * g_.out_plane +
                       (last_ ? pixel * p_.out_channels + out_channel : out_channel * g_.out_plane + pixel);
    T* y = y_ + at;
    const T* residual = residual_ == nullptr ? nullptr : residual_ + at;
    const int64_t y_ld = last_ ? p_.out_channels : g_.out_plane;
    const T* bias = bias_ == nullptr ? nullptr : bias_ + out_channel;
    if constexpr (std::is_same_v<T, C>) {
      if (p_.epilogue.empty()) return Product(weights, columns, column_ld, tile.pixels(), y, y_ld);
      // y may be the residual, so the sums are kept apart from it.
      const int64_t result_ld = last_ ? g_.group_out : tile.pixels();
      Product(weights, columns, column_ld, tile.pixels(), result_, result_ld);
      Finish(result_, result_ld, tile.pixels(), bias, residual, y, y_ld);
    } else {
      const int64_t result_ld = last_ ? g_.group_out : tile.pixels();
      Product(weights, columns, column_ld, tile.pixels(), result_, result_ld);
      Finish(result_, result_ld, tile.pixels(), bias, residual, y, y_ld);
    }
  }

  void Product(const C* weights, const C* columns, int64_t column_ld, int64_t pixels, C* out, int64_t out_ld) {
    HostGemm<C> gemm{.k = g_.depth(), .c = out, .ldc = out_ld};
    if (last_) {
      gemm.m = pixels, gemm.n = g_.group_out;
      gemm.a = columns, gemm.lda = column_ld;
      gemm.b = weights, gemm.ldb = g_.depth(), gemm.transpose_b = true;
    } else {
      gemm.m = g_.group_out, gemm.n = pixels;
      gemm.a = weights, gemm.lda = g_.depth();
      gemm.b = columns, gemm.ldb = column_ld;
    }
    Multiply(gemm);
  }

  // The epilogue of a tile, rounded into y.
  void Finish(const C* from, int64_t from_ld, int64_t pixels, const T* bias, const T* residual, T* to, int64_t to_ld) {
    const int64_t rows = last_ ? pixels : g_.group_out, width = last_ ? g_.group_out : pixels;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        C value = from[row * from_ld + i];
        if (bias != nullptr) value += Load(bias[last_ ? i : row]);
        const C added = residual == nullptr ? C{0} : C(Load(residual[row * to_ld + i]));
        if (residual != nullptr && !p_.epilogue.adds_last) value += added;
        value = Activate(p_.epilogue.activation, value, p_.epilogue.parameters);
        to[row * to_ld + i] = Store<T>(residual != nullptr && p_.epilogue.adds_last ? value + added : value);
      }
    }
  }

  // Column matrix [in channel][tap][pixel].
  void FillChannelsFirst(int64_t n, int64_t group, const Tile& tile) {
    const auto& [depth_axis, height_axis, width_axis] = g_.axes;
    C* to = column_;
    for (int64_t c = 0; c < g_.group_in; ++c) {
      const T* plane = Input(n, group * g_.group_in + c);
      for (int64_t r = 0; r < g_.taps; ++r) {
        const int64_t tw = r % width_axis.kernel, th = r / width_axis.kernel % height_axis.kernel;
        const int64_t td = r / width_axis.kernel / height_axis.kernel;
        const Axis::Run run = width_axis.RunOf(tw, tile.column, tile.column + tile.columns);
        for (int64_t row = tile.row; row < tile.row + tile.rows; ++row, to += tile.columns) {
          const int64_t d = depth_axis.InputOf(row / height_axis.out, td);
          const int64_t h = height_axis.InputOf(row % height_axis.out, th);
          if (d < 0 || h < 0 || run.count == 0) {
            std::fill_n(to, tile.columns, C{0});
            continue;
          }
          if (run.count != tile.columns) std::fill_n(to, tile.columns, C{0});
          const T* from = plane + (d * height_axis.in + h) * width_axis.in + run.in_begin;
          C* first = to + (run.out_begin - tile.column);
          if (run.in_step == 1 && run.out_step == 1) {
            for (int64_t i = 0; i < run.count; ++i) first[i] = Load(from[i]);
          } else {
            for (int64_t i = 0; i < run.count; ++i) first[i * run.out_step] = Load(from[i * run.in_step]);
          }
        }
      }
    }
  }

  // Column matrix [pixel][tap][in channel].
  void FillChannelsLast(int64_t n, int64_t group, const Tile& tile) {
    const auto& [depth_axis, height_axis, width_axis] = g_.axes;
    const T* image = Input(n, group * g_.group_in);
    C* to = column_;
    for (int64_t pixel = 0; pixel < tile.pixels(); ++pixel) {
      const int64_t row = tile.row + pixel / tile.columns, column = tile.column + pixel % tile.columns;
      for (int64_t r = 0; r < g_.taps; ++r, to += g_.group_in) {
        const int64_t w = width_axis.InputOf(column, r % width_axis.kernel);
        const int64_t h = height_axis.InputOf(row % height_axis.out, r / width_axis.kernel % height_axis.kernel);
        const int64_t d = depth_axis.InputOf(row / height_axis.out, r / width_axis.kernel / height_axis.kernel);
        if (d < 0 || h < 0 || w < 0) {
          std::fill_n(to, g_.group_in, C{0});
          continue;
        }
        const T* from = image + ((d * height_axis.in + h) * width_axis.in + w) * p_.in_channels;
        for (int64_t c = 0; c < g_.group_in; ++c) to[c] = Load(from[c]);
      }
    }
  }

  const ConvProblem& p_;
  const Geometry g_;
  const ConvTiling& tiling_;
  const bool last_;
  const T* x_;
  const T* w_;
  const T* bias_;
  const T* residual_;
  T* y_;
  C *packed_, *column_, *result_;
};

template <class T>
void RunAs(const ConvProblem& p, const ConvTiling& tiling, const ConvPointers& at) {
  tiling.depthwise ? RunDepthwise<T>(p, at) : Convolution<T>(p, tiling, at).Run();
}

}  // namespace

Result<ConvTiling> PlanConvolution(const ConvProblem& p, ConvEngine engine, size_t workspace_limit_bytes) {
  // The column matrix of a tile stays in the second-level cache, or in the first.
  const int64_t column_bytes = engine == ConvEngine::kSmallTiles ? 1 << 15 : 1 << 20;
  constexpr int64_t kFewest = 64, kMost = 16384;
  const Geometry g(p);
  const int64_t elem = static_cast<int64_t>(ComputeBytes(p.types.a));
  const int64_t limit = static_cast<int64_t>(std::min<size_t>(workspace_limit_bytes, INT64_MAX));
  ConvTiling tiling{.depthwise = engine == ConvEngine::kDirect};
  if (tiling.depthwise && (g.group_in != 1 || g.pointwise)) {
    return NotSupported(dnn::ProblemText(p), ": the direct engine takes depthwise convolutions alone");
  }
  if (tiling.depthwise) {
    tiling.workspace_bytes = static_cast<size_t>(DepthwiseScratchElems(p, g) * elem);
  } else {
    int64_t pixels = std::clamp(column_bytes / (g.depth() * elem), kFewest, kMost);
    if (ReadsInputDirectly(p, g)) pixels = g.out_plane;
    const auto bytes = [&](int64_t count) {
      return (PackedElems(p, g) + ColumnElems(p, g, count) + ResultElems(p, g, count)) * elem;
    };
    pixels = std::min(pixels, g.out_plane);
    while (pixels > 1 && bytes(pixels) > limit) pixels /= 2;
    tiling.columns = std::min(pixels, g.axes[2].out);
    tiling.rows = std::max<int64_t>(1, pixels / tiling.columns);
    tiling.workspace_bytes = static_cast<size_t>(bytes(tiling.rows * tiling.columns));
  }
  if (tiling.workspace_bytes <= workspace_limit_bytes) return tiling;
  return NotSupported(dnn::ProblemText(p), ": the simulated library needs ", tiling.workspace_bytes,
                      " bytes of workspace, above the limit of ", workspace_limit_bytes);
}

void RunConvolution(const ConvProblem& p, const ConvTiling& tiling, const ConvPointers& at) {
  switch (p.types.a) {
    case DataType::kFloat16:
      return RunAs<Half>(p, tiling, at);
    case DataType::kBFloat16:
      return RunAs<BFloat16>(p, tiling, at);
    case DataType::kDouble:
      return RunAs<double>(p, tiling, at);
    default:
      return RunAs<float>(p, tiling, at);
  }
}

}  // namespace cudaep::sim
