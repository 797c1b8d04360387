// Chains of element-wise operations as a program that one kernel interprets: every input is read and every result
// written once, whatever the chain.
//
// A machine of one accumulator. A step does something to it, with an operand that it names: an input, a value that was
// kept, a number. All values are fp32; truth is 1 and 0. What a step costs beside its arithmetic is paid once for the
// up to 32 elements of a thread.
#pragma once

#include <array>
#include <cstdint>

#include "core/data_type.h"
#include "core/float16.h"
#include "device/device.h"
#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels {

inline constexpr int64_t kChainTableSize = 256;
inline constexpr DataTypeSet kChainTableTypes = kInt8Types;
inline constexpr int kMaxChainInputs = 8, kMaxChainOutputs = 4, kMaxChainSlots = 4, kMaxChainSteps = 48;
inline constexpr DataTypeSet kChainInputTypes =
    kFloatTypesNoDouble | kInt8Types | DataTypeSet{DataType::kBool, DataType::kInt32, DataType::kInt64};
// Integers are stored of values that are whole and fit.
inline constexpr DataTypeSet kChainOutputTypes = kFloatTypesNoDouble | kInt8Types | DataTypeSet(DataType::kBool);

// What becomes of the accumulator x: y is the operand, a and b are the step's numbers.
enum class ChainCode : uint8_t {
  kEnd,
  kLoad,   // b y
  kKeep,   // stays; a copy goes to the slot `place`
  kStore,  // stays; a copy goes to the output `place`, in its type
  // Two operands.
  kAdd,
  kSubtract,      // x - y
  kSubtractFrom,  // y - x
  kMultiply,
  kMaximum,
  kMinimum,
  kLess,  // x < y
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kEqual,
  kAnd,
  kOr,
  kXor,
  kSelect,      // y ? x : z, the slot `place` or b
  kSelectElse,  // y ? z : x
  kLookUp,      // the element at x - a of y, an input of 256 codes
  // One operand, a few instructions.
  kAffine,  // a x + b
  kClamp,   // to [a, b]
  kRelu,
  kLeakyRelu,
  kThresholdedRelu,
  kSquare,
  kAbs,
  kNot,
  kTruth,  // x != 0
  kIsNaN,
  kFloor,
  kCeil,
  kRound,
  kSign,
  kHardSwish,
  kToHalf,  // rounded to what the type holds
  kToBFloat16,
  kQuantize,  // x / a, rounded to a whole number from b to b + 255; NaN becomes b, and zeros are positive
  // More than that: done a few elements at a time.
  kDivide,      // x / y
  kDivideInto,  // y / x
  kPower,       // x^y
  kPowerOf,     // y^x
  kReciprocal,
  kSqrt,
  kExp,
  kLog,
  kErf,
  kSigmoid,
  kTanh,
  kGelu,
  kGeluTanh,
  kSwish,
  kSoftplus,
  kSoftsign,
  kMish,
  kElu,
  kSelu,
  kCelu,
  // The same for chains of 16-bit floats, with errors that are small beside a rounding to those.
  kFastSigmoid,
  kFastTanh,
  kFastGelu,
  kFastGeluTanh,
  kFastSwish,
};

// Of ChainStep::source; beside these an input, or kChainSlot plus a slot.
inline constexpr uint8_t kChainSlot = 0x20, kChainNumber = 0xfe, kNoChainSource = 0xff;

// Three words, of which the first has the code, the source of y (kChainNumber: a) and a place, which is kNoChainSource
// for kSelect with b as z.
struct ChainStep {
  uint32_t word = static_cast<uint32_t>(ChainCode::kEnd);
  float a = 0, b = 0;

  ChainStep() = default;
  constexpr ChainStep(ChainCode code, uint8_t source, uint8_t place, float first = 0, float second = 0)
      : word(static_cast<uint32_t>(code) | uint32_t{source} << 8 | uint32_t{place} << 16), a(first), b(second) {}
  CUDAEP_HOST_DEVICE ChainCode code() const { return static_cast<ChainCode>(word & 0xff); }
  CUDAEP_HOST_DEVICE uint32_t source() const { return word >> 8 & 0xff; }
  CUDAEP_HOST_DEVICE uint32_t place() const { return word >> 16; }
};

struct ChainProgram {
  std::array<ChainStep, kMaxChainSteps + 1> steps = {};  // kEnd behind the last, and one that is read ahead
  int size = 0;                                          // without kEnd
  int slots = 0;
};

// Whether threads have many elements: there are enough, and slots for them fit `shared_bytes` of a block.
bool IsWideChain(int64_t elems, int slots, size_t shared_bytes);

struct ChainArgs {
  const ChainProgram* program;
  std::array<const void*, kMaxChainInputs> inputs;
  std::array<void*, kMaxChainOutputs> outputs;
  std::array<DataType, kMaxChainInputs> input_types;    // kUndefined: there is none
  std::array<DataType, kMaxChainOutputs> output_types;  // the same
  const Broadcast<kMaxChainInputs>* broadcast;
  size_t shared_bytes;  // that a block may have
};

// The broadcast repeats the first element of a table of kLookUp. Outputs have its shape, and memory of their own or
// that of an input which has their shape and type: no input is read after the program's first kStore.
Status LaunchChain(const ChainArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
