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
#include <vector>

#include "device/device.h"
#include "lib/op_graph.h"
#include "lib/plan.h"

namespace cudaep::dnn {

inline constexpr int kMaxSpatialRank = 3;
using Spatial = std::array<int64_t, kMaxSpatialRank>;

// What the library wants of every tensor's address; each allocator gives more.
inline constexpr size_t kTensorAlignment = 16;

enum class Layout : uint8_t { kChannelsFirst, kChannelsLast };
enum class Direction : uint8_t {
  kForward,   // Conv: y = x * w
  kBackward,  // ConvTranspose: the data gradient of a forward convolution that maps y to x
};

// One convolution: y = activation(x * w + bias + residual). Spatial arrays use the first `spatial_rank` entries,
// outermost dimension first.
// Forward: x is [batch, in_channels, in...], w is [out_channels, in_channels / groups, kernel...],
// y is [batch, out_channels, out...]. Backward (transposed): w is [in_channels, out_channels / groups, kernel...].
// Channels last moves the channel dimension of x, w, y and the residual to the end. The residual lies as y does.
struct ConvProblem {
  lib::MixedTypes types;  // all of one float type
  Direction direction = Direction::kForward;
  Layout layout = Layout::kChannelsFirst;
  int spatial_rank = 2;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  Spatial in{}, out{}, kernel{};
  Spatial pad_begin{}, pad_end{}, stride{}, dilation{};
  // Elements from one pixel to the next of a tensor that is a part of one with more channels, channels last; 0: of
  // none.
  int64_t x_pitch = 0, y_pitch = 0, residual_pitch = 0;
  Epilogue epilogue;       // neither sum nor residual is scaled
  bool allow_tf32 = true;  // fp32 only
  bool deterministic = false;

  bool has_parts() const { return (x_pitch | y_pitch | residual_pitch) != 0; }
  bool operator==(const ConvProblem&) const = default;
};

struct ConvPointers {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;  // at least the plan's bytes, 256-byte aligned
};

// The choice of a runtime engine for convolutions in the form with a redundant node (lib/conv_graph.h), which both
// implementations have.
inline constexpr char kRuntimeEngine[] = "f2e4k24=55";

class Handle {
 public:
  virtual ~Handle() = default;
};

class ConvPlan : public lib::Plan {
 public:
  // Whether it begins while earlier work of the stream runs, for which it waits before it reads x and w, but not before
  // it reads bias and residual: cuDNN's runtime engine 4, found with 9.19 on an H200 behind a kernel that lets
  // dependents in early. Who enqueues it sees to it that what writes those two is done.
  bool begins_early() const { return begins_early_; }
  // Whether it was made for tensors that are parts.
  bool takes_parts() const { return takes_parts_; }

 protected:
  bool begins_early_ = false, takes_parts_ = false;
};
class GraphPlan : public lib::Plan {};

// Library name and version, e.g. "cuDNN 9.19.0"; loads the library when it was not loaded yet.
Result<std::string> Version();

// For the current device. A handle is bound to a stream before its first use, and again after it changed owners.
Result<std::unique_ptr<Handle>> CreateHandle();
Status BindStream(Handle& handle, device::Stream stream);

// Ways to run the problem within the limit, at most `most`: {form of the graph, engine, knobs} in the library's order,
// each a `choice` for MakePlan. All of them fuse as much as the first.
Result<std::vector<std::string>> Candidates(Handle& handle, const ConvProblem& problem, size_t workspace_limit_bytes,
                                            size_t most);

// By the library's first engine, or as `choice` says (of Candidates, of a plan, a plan's saved form, a form's
// (FormChoice), or written by hand): kNotSupported where that cannot run the problem, kInvalidArgument for text that
// names nothing.
Result<std::unique_ptr<const ConvPlan>> MakePlan(Handle& handle, const ConvProblem& problem,
                                                 size_t workspace_limit_bytes, const std::string& choice = {});

// Launches only, on the handle's stream: no device allocation, no lock. Sizes of 0 are the caller's to handle. All
// tensors must be aligned to kTensorAlignment, or kInvalidArgument.
Status Enqueue(Handle& handle, const ConvPlan& plan, const ConvPointers& pointers);

// The same three for any graph of operations. On the simulated device graphs are interpreted.
Result<std::vector<std::string>> Candidates(Handle& handle, const OpGraph& graph, size_t workspace_limit_bytes,
                                            size_t most);
Result<std::unique_ptr<const GraphPlan>> MakePlan(Handle& handle, const OpGraph& graph, size_t workspace_limit_bytes,
                                                  const std::string& choice = {});
// `tensors` has one address for each tensor of the graph that is neither virtual nor a scalar, in their order.
Status Enqueue(Handle& handle, const GraphPlan& plan, std::span<void* const> tensors, void* workspace);

}  // namespace cudaep::dnn
