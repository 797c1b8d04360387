#include "lib/sim/host_gemm.h"

#define EIGEN_DONT_PARALLELIZE 1
#include <Eigen/Core>

namespace cudaep::sim {
namespace {

using Eigen::Dynamic;
using Stride = Eigen::OuterStride<>;

template <class T>
using RowMajor = Eigen::Matrix<T, Dynamic, Dynamic, Eigen::RowMajor>;
template <class T>
using ColMajor = Eigen::Matrix<T, Dynamic, Dynamic, Eigen::ColMajor>;
template <class T>
using RowVector = Eigen::Matrix<T, 1, Dynamic, Eigen::RowMajor>;

// op(X) of a stored row-major X is a row-major matrix as it is, or a column-major one when transposed.
template <class T, class A, class B>
void MultiplyAs(const HostGemm<T>& g) {
  const Eigen::Map<const B, 0, Stride> b(g.b, g.k, g.n, Stride(g.ldb));
  if constexpr (A::IsRowMajor) {
    if (g.m == 1) {  // matrix times vector: packing B as the general product does would triple the traffic
      const Eigen::Map<const RowVector<T>> a(g.a, g.k);
      Eigen::Map<RowVector<T>> c(g.c, g.n);
      if (g.beta == T{0}) {
        c.noalias() = g.alpha * (a * b);
      } else {
        c *= g.beta;
        c.noalias() += g.alpha * (a * b);
      }
      return;
    }
  }
  const Eigen::Map<const A, 0, Stride> a(g.a, g.m, g.k, Stride(g.lda));
  Eigen::Map<RowMajor<T>, 0, Stride> c(g.c, g.m, g.n, Stride(g.ldc));
  if (g.beta == T{0}) {
    c.noalias() = g.alpha * (a * b);
  } else {
    c *= g.beta;
    c.noalias() += g.alpha * (a * b);
  }
}

template <class T>
void Dispatch(const HostGemm<T>& g) {
  if (g.transpose_a) {
    g.transpose_b ? MultiplyAs<T, ColMajor<T>, ColMajor<T>>(g) : MultiplyAs<T, ColMajor<T>, RowMajor<T>>(g);
  } else {
    g.transpose_b ? MultiplyAs<T, RowMajor<T>, ColMajor<T>>(g) : MultiplyAs<T, RowMajor<T>, RowMajor<T>>(g);
  }
}

}  // namespace

void Multiply(const HostGemm<float>& gemm) { Dispatch(gemm); }
void Multiply(const HostGemm<double>& gemm) { Dispatch(gemm); }
void Multiply(const HostGemm<int32_t>& gemm) { Dispatch(gemm); }

bool HostCpuSupported() {
#if defined(__x86_64__) && defined(__AVX2__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace cudaep::sim
