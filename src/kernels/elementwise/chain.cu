// Chains of element-wise operations, interpreted.
#include "kernels/common/trigger.cuh"
#include "kernels/elementwise/chain.h"
#include "kernels/elementwise/chain_machine.cuh"

namespace cudaep::kernels {
namespace {

// Elements of a thread: a step costs some 25 instructions beside theirs. With few threads it takes as long as one
// takes.
constexpr int kWide = 32, kNarrow = 8;
constexpr int64_t kManyThreads = 1 << 14;  // a warp for each of a large GPU's schedulers

template <int kV>
__global__ void __launch_bounds__(kChainThreads, kV == kWide ? 5 : 10)
    ChainKernel(const __grid_constant__ ChainInputs in, const __grid_constant__ ChainOutputs out,
                const __grid_constant__ ChainWalk walk, const __grid_constant__ ChainProgram program) {
  TriggerDependentsOfSmallGrid();
  const uint32_t first = blockIdx.x * (kChainThreads * kV) + threadIdx.x * (walk.packed ? kV : 1);
  ChainMachine<kV> machine(in, out, walk, first);
  device::GridDependencyWait();
  if (first < walk.walk.elems) machine.Run(program);
}

// Whether a thread's elements are packs: they stay in one row of every input, and all of it is aligned.
bool IsPacked(const ChainArgs& args, int elements) {
  const Broadcast<kMaxChainInputs>& b = *args.broadcast;
  if (b.rank > 1 && b.size[0] % elements != 0) return false;
  const auto aligned = [&](const void* pointer, DataType type) {
    return IsAligned(pointer, std::min<size_t>(kPackBytes, SizeOf(type) * static_cast<size_t>(elements)));
  };
  for (size_t i = 0; i < kMaxChainInputs; ++i) {
    if (args.inputs[i] != nullptr && b.stride[i][0] != 0 && !aligned(args.inputs[i], args.input_types[i])) return false;
  }
  for (size_t i = 0; i < kMaxChainOutputs; ++i) {
    if (args.outputs[i] != nullptr && !aligned(args.outputs[i], args.output_types[i])) return false;
  }
  return true;
}

template <int kV>
Status LaunchVariant(const ChainArgs& args, device::Stream stream) {
  const Broadcast<kMaxChainInputs>& b = *args.broadcast;
  ChainInputs in{};
  ChainOutputs out{};
  ChainWalk walk{};
  std::ranges::copy(args.inputs, in.pointer);
  std::ranges::copy(args.input_types, in.type);
  std::ranges::copy(args.outputs, out.pointer);
  std::ranges::copy(args.output_types, out.type);
  walk.packed = IsPacked(args, kV);
  walk.walk.elems = static_cast<uint32_t>(b.elems);
  walk.walk.rank = b.rank;
  for (int d = 0; d < b.rank; ++d) {
    walk.walk.size[d] = FastDivider(static_cast<uint32_t>(b.size[d]));
    for (int i = 0; i < kMaxChainInputs; ++i) walk.walk.stride[i][d] = static_cast<uint32_t>(b.stride[i][d]);
  }
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(b.elems, kChainThreads * kV));
  config.block.x = kChainThreads;
  config.shared_bytes = sizeof(float) * kV * kChainThreads * (kWorkSlots + static_cast<size_t>(args.program->slots));
  config.programmatic = true;
  return device::Launch(ChainKernel<kV>, config, stream, in, out, walk, *args.program);
}

}  // namespace

Status LaunchChain(const ChainArgs& args, device::Stream stream) {
  const Broadcast<kMaxChainInputs>& b = *args.broadcast;
  if (b.elems == 0) return Status::Ok();
  if (b.elems > std::min(kSliceElems, index_limit)) {
    const BroadcastHalves<kMaxChainInputs> halves = SplitBroadcast(b);
    ChainArgs first = args, second = args;
    first.broadcast = &halves.first;
    second.broadcast = &halves.second;
    for (size_t i = 0; i < kMaxChainInputs; ++i) {
      const int64_t bytes = halves.skip[i] * static_cast<int64_t>(SizeOf(args.input_types[i]));
      if (args.inputs[i] != nullptr) second.inputs[i] = static_cast<const std::byte*>(args.inputs[i]) + bytes;
    }
    for (size_t i = 0; i < kMaxChainOutputs; ++i) {
      const int64_t bytes = halves.first.elems * static_cast<int64_t>(SizeOf(args.output_types[i]));
      if (args.outputs[i] != nullptr) second.outputs[i] = static_cast<std::byte*>(args.outputs[i]) + bytes;
    }
    CUDAEP_RETURN_IF_ERROR(LaunchChain(first, stream));
    return LaunchChain(second, stream);
  }
  const bool wide = b.elems >= kManyThreads * kWide && (IsPacked(args, kWide) || !IsPacked(args, kNarrow));
  return wide ? LaunchVariant<kWide>(args, stream) : LaunchVariant<kNarrow>(args, stream);
}

}  // namespace cudaep::kernels
