#include "device/cuda/errors.h"

#include <array>
#include <mutex>
#include <string_view>

#include "core/strings.h"
#include "device/device.h"
#include "device/device_info.h"

namespace cudaep::device::cuda {
namespace {

bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorMpsRpcFailure:
      return true;
    default:
      return false;
  }
}

StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return StatusCode::kOutOfMemory;
    case cudaErrorNotReady:
      return StatusCode::kNotReady;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
      return StatusCode::kInvalidArgument;
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorNoDevice:
      return StatusCode::kLibraryMissing;
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
    case cudaErrorCapturedEvent:
    case cudaErrorIllegalState:
    case cudaErrorGraphExecUpdateFailure:
    case cudaErrorNotPermitted:
      return StatusCode::kFailedPrecondition;
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorPeerAccessUnsupported:
      return StatusCode::kNotSupported;
    default:
      return StatusCode::kDeviceError;
  }
}

// The call's name without its arguments.
std::string_view NameOf(std::string_view call) { return call.substr(0, call.find('(')); }

// The first cause for the device that is current; kept for good.
std::string FirstCause(const std::string& text) {
  static constinit std::mutex mutex;
  static auto* const causes = new std::array<std::string, 64>;  // outlives every static destructor
  int ordinal = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess || ordinal < 0 || ordinal >= static_cast<int>(causes->size())) ordinal = 0;
  std::lock_guard lock(mutex);
  std::string& cause = (*causes)[static_cast<size_t>(ordinal)];
  if (cause.empty()) cause = StrCat("device ", ordinal, " is lost: ", text);
  return cause;
}

}  // namespace

Status ErrorStatus(cudaError_t error, const char* call) {
  static_cast<void>(cudaGetLastError());
  // A normal answer to a query, asked often: nobody assembles a text.
  if (error == cudaErrorNotReady) return Status(StatusCode::kNotReady, std::string_view());
  std::string text = StrCat(NameOf(call), ": ", std::string_view(cudaGetErrorName(error)), ", ",
                            std::string_view(cudaGetErrorString(error)));
  if (IsSticky(error)) return Status(StatusCode::kDeviceLost, FirstCause(text));
  if (error == cudaErrorInsufficientDriver) {
    if (const std::string problem = DriverProblem(); !problem.empty()) text = problem;
  }
  return Status(CodeOf(error), text);
}

bool MeansNoDevice(cudaError_t error) {
  return error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary;
}

}  // namespace cudaep::device::cuda
