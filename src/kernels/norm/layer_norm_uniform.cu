#include "core/data_type_traits.h"
#include "kernels/norm/layer_norm.cuh"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {

Status LaunchLayerNormUniform(const LayerNormArgs& args, device::Stream stream) {
  return VisitType<kFloatTypes>(args.x_type, NotSupported("normalisation of ", DataTypeName(args.x_type)),
                                [&]<class T>() { return LaunchLayerNormTypes<T, T>(args, stream); });
}

}  // namespace cudaep::kernels
