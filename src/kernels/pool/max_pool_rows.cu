#include "kernels/pool/pool_join.cuh"
#include "kernels/pool/pool_rows.cuh"

namespace cudaep::kernels {
namespace {

struct Larger : JoinLarger {
  template <class Form, class C>
  __device__ __forceinline__ C Finish(C value, int, int, const PoolRowsArgs&) const {
    return value;
  }
};

}  // namespace

Status LaunchMaxPoolRows(const PoolShape& shape, const void* x, void* y, device::Stream stream, bool* launched) {
  constexpr DataTypeSet kTypes = kMaxPoolTypes - DataTypeSet(DataType::kDouble);
  return VisitType<kTypes>(shape.type, Status::Ok(), [&]<class T>() {
    return LaunchFirstForm<T, WindowForm<2, 2, 0>, WindowForm<3, 2, 1>, WindowForm<3, 2, 0>, WindowForm<3, 1, 1>,
                           WindowForm<5, 1, 2>>(shape, Larger{}, x, y, stream, launched);
  });
}

}  // namespace cudaep::kernels
