// Chains of element-wise operations, interpreted.
#include "kernels/common/trigger.cuh"
#include "kernels/elementwise/chain.h"
#include "kernels/elementwise/chain_machine.cuh"

namespace cudaep::kernels {
namespace {

// Elements of a thread: a step costs 15 to 25 instructions beside theirs. With few threads it takes as long as one
// takes, which is bound by its instructions: loads ahead of their steps gain 1% (H200, 8 inputs), half of the elements
// 7%.
constexpr int kWide = 32, kNarrow = 8, kFew = 4;
constexpr int kPackOf = 4;                        // fp32 of 16 bytes
constexpr int64_t kManyElems = int64_t{1} << 20;  // two warps of kWide elements for each of a large GPU's schedulers

constexpr size_t SharedBytes(int elems_of_thread, int slots) {
  return sizeof(float) * kChainThreads * static_cast<size_t>(elems_of_thread) *
         (kWorkSlots + static_cast<size_t>(slots));
}

template <int kV, int kPack>
__global__ void __launch_bounds__(kChainThreads, kV == kWide ? 5 : 10)
    ChainKernel(const __grid_constant__ ChainInputs in, const __grid_constant__ ChainOutputs out,
                const __grid_constant__ Walk<kMaxChainInputs> walk, const __grid_constant__ ChainProgram program) {
  TriggerDependentsOfSmallGrid();
  ChainMachine<kV, kPack> machine(in, out, walk);
  if (machine.HasElements()) machine.Prefetch();
  device::GridDependencyWait();
  if (machine.HasElements()) machine.Run(program);
}

// Whether all that is read and written one after the other is aligned to packs.
bool IsAligned(const ChainArgs& args) {
  const auto aligned = [](const void* pointer, DataType type) {
    return kernels::IsAligned(pointer, std::min<size_t>(kPackBytes, SizeOf(type) * kPackOf));
  };
  for (size_t i = 0; i < kMaxChainInputs; ++i) {
    const bool repeated = args.broadcast->stride[i][0] == 0;
    if (args.inputs[i] != nullptr && !repeated && !aligned(args.inputs[i], args.input_types[i])) return false;
  }
  for (size_t i = 0; i < kMaxChainOutputs; ++i) {
    if (args.outputs[i] != nullptr && !aligned(args.outputs[i], args.output_types[i])) return false;
  }
  return true;
}

template <int kV, int kPack>
Status LaunchVariant(const ChainArgs& args, device::Stream stream) {
  const Broadcast<kMaxChainInputs>& b = *args.broadcast;
  ChainInputs in{};
  ChainOutputs out{};
  Walk<kMaxChainInputs> walk{};
  std::ranges::copy(args.inputs, in.pointer);
  std::ranges::copy(args.input_types, in.type);
  std::ranges::transform(args.input_types, in.bytes, [](DataType type) { return static_cast<uint8_t>(SizeOf(type)); });
  std::ranges::copy(args.outputs, out.pointer);
  std::ranges::copy(args.output_types, out.type);
  walk.elems = static_cast<uint32_t>(b.elems);
  walk.rank = b.rank;
  for (int d = 0; d < b.rank; ++d) {
    walk.size[d] = FastDivider(static_cast<uint32_t>(b.size[d]));
    for (int i = 0; i < kMaxChainInputs; ++i) walk.stride[i][d] = static_cast<uint32_t>(b.stride[i][d]);
  }
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(b.elems, kChainThreads * kV));
  config.block.x = kChainThreads;
  config.shared_bytes = SharedBytes(kV, args.program->slots);
  config.programmatic = true;
  return device::Launch(ChainKernel<kV, kPack>, config, stream, in, out, walk, *args.program);
}

Status LaunchHalves(const ChainArgs& args, const BroadcastHalves<kMaxChainInputs>& halves, device::Stream stream) {
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

// One dimension up to its last whole pack, and the elements behind it.
BroadcastHalves<kMaxChainInputs> SplitTail(const Broadcast<kMaxChainInputs>& whole) {
  BroadcastHalves<kMaxChainInputs> parts{whole, whole, {}};
  parts.second.size[0] = parts.second.elems = whole.elems % kPackOf;
  parts.first.size[0] = parts.first.elems = whole.elems - parts.second.elems;
  for (int i = 0; i < kMaxChainInputs; ++i) parts.skip[i] = parts.first.elems * whole.stride[i][0];
  return parts;
}

}  // namespace

bool IsWideChain(int64_t elems, int slots, size_t shared_bytes) {
  return elems >= kManyElems && SharedBytes(kWide, slots) <= shared_bytes;
}

Status LaunchChain(const ChainArgs& args, device::Stream stream) {
  const Broadcast<kMaxChainInputs>& b = *args.broadcast;
  if (b.elems == 0) return Status::Ok();
  if (b.elems > std::min(kSliceElems, index_limit)) return LaunchHalves(args, SplitBroadcast(b), stream);
  const bool many = IsWideChain(b.elems, args.program->slots, args.shared_bytes), aligned = IsAligned(args);
  const bool few = b.elems <= int64_t{kMultiprocessors} * kChainThreads * kFew;
  if (aligned && b.size[0] % kPackOf == 0) {
    if (few) return LaunchVariant<kFew, kPackOf>(args, stream);
    return many ? LaunchVariant<kWide, kPackOf>(args, stream) : LaunchVariant<kNarrow, kPackOf>(args, stream);
  }
  if (aligned && many && b.rank == 1) return LaunchHalves(args, SplitTail(b), stream);
  if (few) return LaunchVariant<kFew, 1>(args, stream);
  return LaunchVariant<kNarrow, 1>(args, stream);
}

}  // namespace cudaep::kernels
