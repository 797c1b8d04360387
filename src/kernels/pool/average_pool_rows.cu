#include "kernels/pool/pool_join.cuh"
#include "kernels/pool/pool_rows.cuh"

namespace cudaep::kernels {
namespace {

struct Mean : JoinSum {
  bool count_padding;

  explicit Mean(bool count) : count_padding(count) {}
  // The taps from `start` on that count; a last window of ceil_mode may reach beyond the padding.
  template <class Form>
  __device__ __forceinline__ int Count(int start, int in, int pad_end) const {
    const int last = device::Min(Form::kTaps, in + (count_padding ? pad_end : 0) - start);
    return last - (count_padding ? 0 : device::Max(0, -start));
  }
  template <class Form, class C>
  __device__ __forceinline__ C Finish(C sum, int row, int column, const PoolRowsArgs& args) const {
    const int count = Count<Form>(row, args.in_h, args.pad_bottom) * Count<Form>(column, args.in_w, args.pad_right);
    return sum / static_cast<C>(count);
  }
};

}  // namespace

Status LaunchAveragePoolRows(const PoolShape& shape, bool count_padding, const void* x, void* y, device::Stream stream,
                             bool* launched) {
  return VisitType<kFloatTypesNoDouble>(shape.type, Status::Ok(), [&]<class T>() {
    return LaunchFirstForm<T, WindowForm<2, 2, 0>, WindowForm<3, 2, 1>, WindowForm<3, 1, 1>>(shape, Mean{count_padding},
                                                                                             x, y, stream, launched);
  });
}

}  // namespace cudaep::kernels
