"""A session on the application's stream: what makes its input, the Run and what reads its output are queued one behind
the other, and the application waits once, at the end.

With PyTorch and a GPU the stream is PyTorch's, as are the producer and the consumer. Elsewhere it is one that ONNX
Runtime makes, with copies in their place.
"""

import numpy as np
import onnxruntime as ort
import ort_cuda_ep
import small_model

FRAMES, ROWS = 50, 8


def main() -> None:
    ort_cuda_ep.install()
    try:
        import torch
    except ImportError:
        torch = None
    frames = [small_model.rows(ROWS, seed) for seed in range(FRAMES)]
    if torch is not None and not ort_cuda_ep.is_simulated(ort_cuda_ep.devices()[0]):
        whose, results = "PyTorch's", with_torch(torch, frames)
    else:
        whose, results = "ONNX Runtime's", without_torch(frames)
    for frame, result in zip(frames, results, strict=True):
        small_model.check(result, frame)
    print(f"{FRAMES} frames on one stream of {whose}")


def open_session(stream: int) -> ort.InferenceSession:
    """A session whose work is queued on `stream`, the address of a CUDA stream that outlives it."""
    options = {"user_compute_stream": stream, "require_all_compute_nodes": True, "use_tf32": False}
    return ort.InferenceSession(small_model.model(), providers=[("CUDAExecutionProvider", options)])


def without_waiting() -> ort.RunOptions:
    """For Runs that return when their work is queued."""
    options = ort.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    return options


def with_torch(torch, frames: list[np.ndarray]) -> list[np.ndarray]:
    stream = torch.cuda.Stream()
    session, options = open_session(stream.cuda_stream), without_waiting()
    pinned = torch.from_numpy(np.stack(frames)).pin_memory()
    with torch.cuda.stream(stream):
        x = torch.empty(ROWS, small_model.INPUTS, device="cuda")
        y = torch.empty(ROWS, small_model.OUTPUTS, device="cuda")
        results = torch.empty(len(frames), ROWS, small_model.OUTPUTS, device="cuda")
        binding = session.io_binding()
        binding.bind_input("x", "cuda", 0, np.float32, x.shape, x.data_ptr())
        binding.bind_output("y", "cuda", 0, np.float32, y.shape, y.data_ptr())
        for index in range(len(frames)):
            x.copy_(pinned[index], non_blocking=True)
            session.run_with_iobinding(binding, options)
            results[index] = y
    stream.synchronize()
    return list(results.cpu().numpy())


def without_torch(frames: list[np.ndarray]) -> list[np.ndarray]:
    stream = ort_cuda_ep.devices()[0].create_sync_stream()
    session, options = open_session(stream.get_handle()), without_waiting()
    x, y = (device_memory(ROWS, width) for width in (small_model.INPUTS, small_model.OUTPUTS))
    results = [device_memory(ROWS, small_model.OUTPUTS) for _ in frames]
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    for frame, result in zip(frames, results, strict=True):
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(frame)], [x], stream)
        session.run_with_iobinding(binding, options)
        ort.copy_tensors([y], [result], stream)
    del binding, session  # waits for the stream
    return [result.numpy() for result in results]


def device_memory(*shape: int) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "cuda", 0)


if __name__ == "__main__":
    main()
