#include "lib/sim/host_reduce.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/data_type_traits.h"

namespace cudaep::comm {
namespace {

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Integers wrap around, as on a GPU.
template <class T>
struct WideOf {
  using Type = T;
};
template <class T>
requires std::is_integral_v<T>
struct WideOf<T> {
  using Type = uint64_t;
};
template <class T>
requires kIsHalf<T>
struct WideOf<T> {
  using Type = float;
};
template <class T>
using Wide = typename WideOf<T>::Type;

template <class T>
Wide<T> Widen(T value) {
  if constexpr (kIsHalf<T>) {
    return ToFloat(value);
  } else {
    return static_cast<Wide<T>>(value);
  }
}

template <class T>
T Narrow(Wide<T> value) {
  if constexpr (std::is_same_v<T, Half>) {
    return HalfFromFloat(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16FromFloat(value);
  } else {
    return static_cast<T>(value);
  }
}

// In the type itself for integers, whose order the wide type does not keep.
template <class T>
Wide<T> Extreme(Wide<T> a, Wide<T> b, bool larger) {
  if constexpr (std::is_integral_v<T>) {
    const T x = static_cast<T>(a), y = static_cast<T>(b);
    return static_cast<Wide<T>>(larger ? std::max(x, y) : std::min(x, y));
  } else {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    return larger ? std::max(a, b) : std::min(a, b);
  }
}

template <class T>
Wide<T> Combine(Wide<T> a, Wide<T> b, Reduction reduction) {
  switch (reduction) {
    case Reduction::kProduct:
      return a * b;
    case Reduction::kMin:
      return Extreme<T>(a, b, false);
    case Reduction::kMax:
      return Extreme<T>(a, b, true);
    default:
      return a + b;
  }
}

template <class T>
void Reduce(std::span<const void* const> parts, T* out, int64_t elems, Reduction reduction) {
  for (int64_t i = 0; i < elems; ++i) {
    Wide<T> value = Widen(static_cast<const T*>(parts[0])[i]);
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      value = Combine<T>(value, Widen(static_cast<const T*>(parts[rank])[i]), reduction);
    }
    if constexpr (!std::is_integral_v<T>) {
      if (reduction == Reduction::kMean) value /= static_cast<Wide<T>>(parts.size());
    }
    out[i] = Narrow<T>(value);
  }
}

}  // namespace

void HostReduce(std::span<const void* const> parts, void* out, int64_t elems, DataType type, Reduction reduction) {
  VisitType<kReducedTypes>(type, false, [&]<class T>() {
    Reduce(parts, static_cast<T*>(out), elems, reduction);
    return true;
  });
}

}  // namespace cudaep::comm
