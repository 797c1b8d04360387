// NCCL's functions, found at run time, and as much of its types as is used.
//
// Declared here rather than taken from NCCL's header, which many toolkits lack: the numbers are NCCL 2's. Where a build
// has the header, nccl_api.cc compares. Threads and failure: as loader.h says.
#pragma once

#include <climits>
#include <cstddef>
#include <string_view>

#include "device/device.h"
#include "lib/loader.h"

namespace cudaep::nccl {

using Communicator = struct NcclComm*;  // ncclComm_t

enum Code : int {  // ncclResult_t
  kSuccess = 0,
  kInProgress = 7,
};
enum Type : int {  // ncclDataType_t
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBFloat16 = 9,
};
enum Operator : int {  // ncclRedOp_t
  kSum = 0,
  kProduct = 1,
  kMax = 2,
  kMin = 3,
  kAverage = 4,
};
struct UniqueId {  // ncclUniqueId
  std::byte bytes[128];
};
// The beginning of ncclConfig_t, as it was in version 2.14: later libraries take what is missing for its default.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = INT_MIN;
};

// name, parameters; each returns Code
#define CUDAEP_NCCL_FUNCTIONS(X)                                                                          \
  X(ncclGetVersion, (int*))                                                                               \
  X(ncclGetUniqueId, (UniqueId*))                                                                         \
  X(ncclCommInitRankConfig, (Communicator*, int size, UniqueId, int rank, Config*))                       \
  X(ncclCommGetAsyncError, (Communicator, Code*))                                                         \
  X(ncclCommFinalize, (Communicator))                                                                     \
  X(ncclCommDestroy, (Communicator))                                                                      \
  X(ncclCommAbort, (Communicator))                                                                        \
  X(ncclAllReduce, (const void* in, void* out, size_t, Type, Operator, Communicator, device::Stream))     \
  X(ncclReduceScatter, (const void* in, void* out, size_t, Type, Operator, Communicator, device::Stream)) \
  X(ncclAllGather, (const void* in, void* out, size_t, Type, Communicator, device::Stream))               \
  X(ncclSend, (const void* in, size_t, Type, int peer, Communicator, device::Stream))                     \
  X(ncclRecv, (void* out, size_t, Type, int peer, Communicator, device::Stream))                          \
  X(ncclGroupStart, ())                                                                                   \
  X(ncclGroupEnd, ())

struct Api {
  lib::LoadedLibrary library;
  const char* (*ncclGetErrorString)(Code) = nullptr;
  const char* (*ncclGetLastError)(Communicator) = nullptr;
#define CUDAEP_DECLARE(name, parameters) Code(*name) parameters = nullptr;
  CUDAEP_NCCL_FUNCTIONS(CUDAEP_DECLARE)
#undef CUDAEP_DECLARE
};

// Loads the library at the first call that succeeds.
Result<const Api*> Nccl();

// With what NCCL says of its last error.
Status ToStatus(const Api& api, Code code, std::string_view call);

}  // namespace cudaep::nccl
