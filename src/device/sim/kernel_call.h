// What the simulated device keeps of a launch: a type-erased kernel, its arguments as bytes, and where pointers are.
//
// `const T*` parameters are reads, other pointers writes. Pointers inside structs are found by scanning and count as
// reads, unless the struct says `static constexpr bool kWritesThroughPointers = true`. Integers are never scanned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::device {
struct LaunchConfig;
}

namespace cudaep::device::sim {

class BlockExecutor;
using AnyKernel = void (*)();

enum class ArgumentKind : uint8_t {
  kValue,        // no pointers
  kRead,         // const T*
  kWrite,        // T*
  kStructRead,   // a struct that may hold pointers, read through
  kStructWrite,  // the same, written through
};

struct ArgumentInfo {
  uint16_t offset;
  uint16_t bytes;
  ArgumentKind kind;
};

struct KernelSignature {
  // Runs the kernel for one device thread after the other until all of the block have started.
  void (*invoke)(AnyKernel kernel, const std::byte* arguments, BlockExecutor& block);
  std::span<const ArgumentInfo> arguments;
  size_t bytes;
};

// The status of the submission; `arguments` is copied before it returns.
Status SubmitKernel(AnyKernel kernel, const KernelSignature& signature, const std::byte* arguments,
                    const LaunchConfig& config, Stream stream);

template <class T>
consteval ArgumentKind KindOfArgument() {
  if constexpr (std::is_pointer_v<T>) {
    using Pointee = std::remove_pointer_t<T>;
    if (std::is_function_v<Pointee>) return ArgumentKind::kValue;
    return std::is_const_v<Pointee> ? ArgumentKind::kRead : ArgumentKind::kWrite;
  } else if constexpr (std::is_class_v<T> || std::is_union_v<T>) {
    if constexpr (std::is_empty_v<T>) return ArgumentKind::kValue;
    if constexpr (requires { T::kWritesThroughPointers; }) {
      if (T::kWritesThroughPointers) return ArgumentKind::kStructWrite;
    }
    return sizeof(T) < sizeof(void*) ? ArgumentKind::kValue : ArgumentKind::kStructRead;
  } else {
    return ArgumentKind::kValue;
  }
}

// Layout of one parameter list in a byte array.
template <class... P>
struct KernelArguments {
  struct Table {
    ArgumentInfo info[sizeof...(P) + 1];
    size_t bytes;
  };
  static consteval Table MakeTable() {
    Table table{};
    size_t at = 0, index = 0;
    ((at = (at + alignof(P) - 1) / alignof(P) * alignof(P),
      table.info[index++] = {static_cast<uint16_t>(at), static_cast<uint16_t>(sizeof(P)), KindOfArgument<P>()},
      at += sizeof(P)),
     ...);
    table.bytes = at;
    return table;
  }
  static_assert(((alignof(P) <= 16) && ...), "kernel arguments are aligned to 16 bytes at most");
  static constexpr Table kTable = MakeTable();
  static constexpr size_t kBytes = kTable.bytes;

  static void Store(std::byte* bytes, const P&... values) {
    size_t index = 0;
    (std::memcpy(bytes + kTable.info[index++].offset, &values, sizeof(P)), ...);
    static_cast<void>(bytes), static_cast<void>(index);
  }

  // A template over the executor only to be compiled after its class is complete.
  template <class Block>
  static void Invoke(AnyKernel kernel, const std::byte* bytes, Block& block) {
    InvokeWith(kernel, bytes, block, std::index_sequence_for<P...>());
  }
  template <class Block, size_t... I>
  static void InvokeWith(AnyKernel kernel, [[maybe_unused]] const std::byte* bytes, Block& block,
                         std::index_sequence<I...>) {
    const auto body = reinterpret_cast<void (*)(P...)>(kernel);
    while (block.BeginThread()) {
      body(*std::launder(reinterpret_cast<const P*>(bytes + kTable.info[I].offset))...);
      block.EndThread();
    }
  }

  static constexpr KernelSignature kSignature{&Invoke<BlockExecutor>, {kTable.info, sizeof...(P)}, kBytes};
};

}  // namespace cudaep::device::sim
