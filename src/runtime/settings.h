// What the provider's options mean to operators and streams: plain values, parsed once per session.
//
// The options table (runtime/options_table.h) is the only writer; everything below reads a const reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "memory/memory_config.h"
#include "runtime/fusion.h"

namespace cudaep {

// How a convolution plan is chosen.
enum class ConvSearch : uint8_t {
  kHeuristic,   // the library's first suggestion that fits the workspace
  kExhaustive,  // every plan is timed once per problem
  kDefault,     // the library's first suggestion without workspace where there is one
};

// Which implementation runs a product or a convolution. What is forced and impossible is an error.
enum class GemmPath : uint8_t { kAuto, kLibrary, kOwnKernel };
enum class ConvPath : uint8_t { kAuto, kLibrary, kColumns, kDepthwise, kChannelsLast };
// Which kernel normalises the rows of layer and RMS normalisation.
enum class NormPath : uint8_t { kAuto, kDirect, kBatch, kTeam, kRing, kLong, kStream };

inline constexpr int kMostRanks = 1024;
inline constexpr int kMostTimeoutSeconds = 24 * 60 * 60;

// The ranks that run a model together, one session each (runtime/process_group.h).
struct GroupSettings {
  int size = 0;  // 0: no group was named
  int rank = 0;
  std::string file;  // that they meet in; not needed by a group of one
  int timeout_s = 300;
};

struct Settings {
  int device_ordinal = 0;
  bool use_tf32 = true;        // GEMM, convolution and attention alike
  bool deterministic = false;  // the same bits in every Run, on every thread and in every process
  bool enable_cudnn = true;
  ConvSearch conv_search = ConvSearch::kHeuristic;
  bool conv_use_max_workspace = true;  // false: convolution workspaces stay below 32 MB
  bool measured_products = false;      // plans of products that were measured are used
  bool measure_products = false;       // and those missing are measured,
  int64_t most_measuring_ms = 0;       // each in so many milliseconds or little more; 0: no limit
  GemmPath gemm_path = GemmPath::kAuto;
  ConvPath conv_path = ConvPath::kAuto;
  NormPath norm_path = NormPath::kAuto;
  bool plan_cache_enable = true;
  std::string plan_cache_path;      // as given
  std::string plan_file;            // where library plans are kept between processes; empty: nowhere
  bool conv1d_pad_to_nc1d = false;  // 1-D convolutions run as [N,C,1,D] instead of [N,C,D,1]
  bool compiled_engines = true;     // convolutions and short products by engines compiled in the background
  bool attention_by_cudnn = true;   // false: attention runs by own kernels alone
  bool prefer_nhwc = false;
  bool compiled_regions = true;  // nodes are joined to regions, which the provider runs by itself
  bool region_graphs = true;     // which are launched as CUDA graphs
  bool fusion = true;            // what is rewritten in them: all
  FusionSet fusion_skip;         // but these
  bool strict_skip_layer_norm = false;
  void* user_stream = nullptr;
  bool has_user_stream = false;
  bool order_with_legacy_stream = false;  // of the provider's own streams, both ways
  bool copy_in_default_stream = true;
  bool unified_stream = false;
  bool enable_cuda_graph = false;          // Runs are captured and replayed, by gpu_graph_id
  int graph_warm_up_runs = 1;              // of each id, before the one that is captured
  int max_graphs = 64;                     // of one session
  bool require_all_compute_nodes = false;  // a compute node that is not ours fails the session
  std::string placement_report;            // file that GetCapability writes its decisions to; empty: none
  int64_t budget_dynamic_dim = 0;          // what an open dimension counts as in a memory budget; 0: cost unknown
  GroupSettings group;
  memory::MemoryConfig memory;  // its ordinal is set where the session's device is known
};

}  // namespace cudaep
