#include "core/data_type_traits.h"
#include "kernels/norm/layer_norm.cuh"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {

Status LaunchLayerNormMixed(const LayerNormArgs& args, device::Stream stream) {
  const Status refused =
      NotSupported("normalisation of ", DataTypeName(args.x_type), " to ", DataTypeName(args.y_type));
  if (args.x_type == DataType::kFloat) {
    return VisitType<kFloat16Types>(args.y_type, refused,
                                    [&]<class V>() { return LaunchLayerNormTypes<float, V>(args, stream); });
  }
  if (args.y_type != DataType::kFloat) return refused;
  return VisitType<kFloat16Types>(args.x_type, refused,
                                  [&]<class T>() { return LaunchLayerNormTypes<T, float>(args, stream); });
}

}  // namespace cudaep::kernels
