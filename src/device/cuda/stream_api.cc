// device.h over the CUDA runtime: streams, events, capture and graphs.
#include "device/cuda/errors.h"
#include "device/device.h"

namespace cudaep::device {
namespace {

// The project's handles are the runtime's own under another name.
cudaStream_t Native(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t Native(Event event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaGraph_t Native(Graph graph) { return reinterpret_cast<cudaGraph_t>(graph); }
cudaGraphExec_t Native(GraphExec exec) { return reinterpret_cast<cudaGraphExec_t>(exec); }

template <class Handle, class NativeHandle>
Status Give(cudaError_t error, const char* call, NativeHandle native, Handle* handle) {
  *handle = error == cudaSuccess ? reinterpret_cast<Handle>(native) : nullptr;
  return cuda::ToStatus(error, call);
}

cudaStreamCaptureMode Native(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::kThreadLocal:
      return cudaStreamCaptureModeThreadLocal;
    case CaptureMode::kRelaxed:
      return cudaStreamCaptureModeRelaxed;
    default:
      return cudaStreamCaptureModeGlobal;
  }
}

CaptureMode FromNative(cudaStreamCaptureMode mode) {
  switch (mode) {
    case cudaStreamCaptureModeThreadLocal:
      return CaptureMode::kThreadLocal;
    case cudaStreamCaptureModeRelaxed:
      return CaptureMode::kRelaxed;
    default:
      return CaptureMode::kGlobal;
  }
}

}  // namespace

Status StreamCreate(Stream* stream, StreamKind kind) {
  cudaStream_t native = nullptr;
  const unsigned flags = kind == StreamKind::kBlocking ? cudaStreamDefault : cudaStreamNonBlocking;
  const cudaError_t error = cudaStreamCreateWithFlags(&native, flags);
  return Give(error, "cudaStreamCreateWithFlags", native, stream);
}

Status StreamDestroy(Stream stream) { return CUDAEP_CUDA_STATUS(cudaStreamDestroy(Native(stream))); }
Status StreamSynchronize(Stream stream) { return CUDAEP_CUDA_STATUS(cudaStreamSynchronize(Native(stream))); }
Status StreamQuery(Stream stream) { return CUDAEP_CUDA_STATUS(cudaStreamQuery(Native(stream))); }
Status StreamWaitEvent(Stream stream, Event event) {
  return CUDAEP_CUDA_STATUS(cudaStreamWaitEvent(Native(stream), Native(event), cudaEventWaitDefault));
}
Status StreamGetDevice(Stream stream, int* ordinal) {
  return CUDAEP_CUDA_STATUS(cudaStreamGetDevice(Native(stream), ordinal));
}
Status LaunchHostFunc(Stream stream, HostFunction function, void* state) {
  return CUDAEP_CUDA_STATUS(cudaLaunchHostFunc(Native(stream), function, state));
}

Status EventCreate(Event* event, EventKind kind) {
  cudaEvent_t native = nullptr;
  const unsigned flags = kind == EventKind::kTiming ? cudaEventDefault : cudaEventDisableTiming;
  const cudaError_t error = cudaEventCreateWithFlags(&native, flags);
  return Give(error, "cudaEventCreateWithFlags", native, event);
}

Status EventDestroy(Event event) { return CUDAEP_CUDA_STATUS(cudaEventDestroy(Native(event))); }
Status EventRecord(Event event, Stream stream) {
  return CUDAEP_CUDA_STATUS(cudaEventRecord(Native(event), Native(stream)));
}
Status EventQuery(Event event) { return CUDAEP_CUDA_STATUS(cudaEventQuery(Native(event))); }
Status EventSynchronize(Event event) { return CUDAEP_CUDA_STATUS(cudaEventSynchronize(Native(event))); }
Status EventElapsedMs(float* milliseconds, Event begin, Event end) {
  return CUDAEP_CUDA_STATUS(cudaEventElapsedTime(milliseconds, Native(begin), Native(end)));
}

Status StreamBeginCapture(Stream stream, CaptureMode mode) {
  return CUDAEP_CUDA_STATUS(cudaStreamBeginCapture(Native(stream), Native(mode)));
}

Status StreamEndCapture(Stream stream, Graph* graph) {
  cudaGraph_t native = nullptr;
  const cudaError_t error = cudaStreamEndCapture(Native(stream), &native);
  return Give(error, "cudaStreamEndCapture", native, graph);
}

Status StreamCaptureState(Stream stream, CaptureState* state) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaStreamIsCapturing(Native(stream), &status));
  *state = status == cudaStreamCaptureStatusActive        ? CaptureState::kActive
           : status == cudaStreamCaptureStatusInvalidated ? CaptureState::kInvalidated
                                                          : CaptureState::kNone;
  return Status::Ok();
}

Status ThreadExchangeCaptureMode(CaptureMode* mode) {
  cudaStreamCaptureMode native = Native(*mode);
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaThreadExchangeStreamCaptureMode(&native));
  *mode = FromNative(native);
  return Status::Ok();
}

Status GraphInstantiate(GraphExec* exec, Graph graph) {
  cudaGraphExec_t native = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&native, Native(graph), 0);
  return Give(error, "cudaGraphInstantiate", native, exec);
}

Status GraphExecUpdate(GraphExec exec, Graph graph) {
  cudaGraphExecUpdateResultInfo info{};
  return CUDAEP_CUDA_STATUS(cudaGraphExecUpdate(Native(exec), Native(graph), &info));
}

Status GraphLaunch(GraphExec exec, Stream stream) {
  return CUDAEP_CUDA_STATUS(cudaGraphLaunch(Native(exec), Native(stream)));
}
Status GraphNodeCount(Graph graph, size_t* count) {
  return CUDAEP_CUDA_STATUS(cudaGraphGetNodes(Native(graph), nullptr, count));
}
Status GraphDestroy(Graph graph) { return CUDAEP_CUDA_STATUS(cudaGraphDestroy(Native(graph))); }
Status GraphExecDestroy(GraphExec exec) { return CUDAEP_CUDA_STATUS(cudaGraphExecDestroy(Native(exec))); }

}  // namespace cudaep::device
