// Convolution by a vendor library: cuDNN's graph API on a GPU, im2col and Eigen on the simulated device.
//
// A plan is immutable and may be used by many threads; a handle belongs to one stream at a time.
// Errors: kLibraryMissing when the library cannot be loaded (the message names file, version and places),
// kNotSupported when it has no engine for the problem within the workspace limit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::dnn {

inline constexpr int kMaxSpatialRank = 3;
using Spatial = std::array<int64_t, kMaxSpatialRank>;

enum class Layout : uint8_t { kChannelsFirst, kChannelsLast };
enum class Direction : uint8_t {
  kForward,   // Conv: y = x * w
  kBackward,  // ConvTranspose: the data gradient of a forward convolution that maps y to x
};

// One convolution. Spatial arrays use the first `spatial_rank` entries, outermost dimension first.
// Forward: x is [batch, in_channels, in...], w is [out_channels, in_channels / groups, kernel...],
// y is [batch, out_channels, out...]. Backward (transposed): w is [in_channels, out_channels / groups, kernel...].
// Channels last moves the channel dimension of x, w and y to the end.
struct ConvProblem {
  DataType type = DataType::kFloat;  // float, float16, bfloat16 or double
  Direction direction = Direction::kForward;
  Layout layout = Layout::kChannelsFirst;
  int spatial_rank = 2;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  Spatial in{}, out{}, kernel{};
  Spatial pad_begin{}, pad_end{}, stride{}, dilation{};
  bool bias = false;       // one value an output channel, fused
  bool allow_tf32 = true;  // fp32 only
  bool deterministic = false;

  bool operator==(const ConvProblem&) const = default;
};

struct ConvPointers {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;  // at least the plan's bytes, 256-byte aligned
};

// How MakePlan picks among the engines that can run the problem.
enum class Choice : uint8_t {
  kFirst,    // the library's own heuristic order
  kFastest,  // every candidate is timed on scratch data (allocates; not inside a capture)
};

class Handle {
 public:
  virtual ~Handle() = default;
};

class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  size_t workspace_bytes() const { return workspace_bytes_; }
  // The library could not fuse the bias: Enqueue leaves it out and the caller adds it to y with a kernel of its own.
  bool needs_separate_bias() const { return needs_separate_bias_; }

 protected:
  size_t workspace_bytes_ = 0;
  bool needs_separate_bias_ = false;
};

// Library name and version, e.g. "cuDNN 9.19.0"; loads the library when it was not loaded yet.
Result<std::string> Version();

// For the current device. A handle is bound to a stream before its first use, and again after it changed owners.
Result<std::unique_ptr<Handle>> CreateHandle();
Status BindStream(Handle& handle, device::Stream stream);

Result<std::unique_ptr<const ConvPlan>> MakePlan(Handle& handle, const ConvProblem& problem, Choice choice,
                                                 size_t workspace_limit_bytes);

// Launches only, on the handle's stream: no device allocation, no lock. Sizes of 0 are the caller's to handle. All
// tensors must be aligned to 16 bytes (what every allocator gives), or kInvalidArgument.
Status Enqueue(Handle& handle, const ConvPlan& plan, const ConvPointers& pointers);

}  // namespace cudaep::dnn
