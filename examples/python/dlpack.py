"""Tensors of PyTorch as a session's inputs and outputs, by DLPack: it works on their memory, and nothing is copied.

On a GPU these are CUDA tensors. PyTorch cannot address the memory of the simulated device, so there the same program
has tensors in host memory, which the session reads and writes where they are; without PyTorch, arrays of numpy take
their place. Needs ONNX Runtime 1.26.
"""

import sys

import numpy as np
import onnxruntime as ort
import ort_cuda_ep
import small_model

try:
    import torch
except ImportError:
    torch = None


def main() -> None:
    if not hasattr(ort.OrtValue, "from_dlpack"):
        sys.exit(f"ONNX Runtime {ort.__version__} has no DLPack; 1.26 has")
    ort_cuda_ep.install()
    options = {"require_all_compute_nodes": True, "use_tf32": False}
    session = ort.InferenceSession(small_model.model(), providers=[("CUDAExecutionProvider", options)])
    on_gpu = torch is not None and not ort_cuda_ep.is_simulated(ort_cuda_ep.devices()[0])
    place = "cuda" if on_gpu else "cpu"

    values = small_model.rows(32)
    if torch is not None:
        x = torch.from_numpy(values).to(place)
        y = torch.empty(len(values), small_model.OUTPUTS, device=place)
    else:
        x, y = values, np.empty((len(values), small_model.OUTPUTS), np.float32)

    # In: the session reads x and writes y, where they are.
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.from_dlpack(x))
    binding.bind_ortvalue_output("y", ort.OrtValue.from_dlpack(y))
    if on_gpu:
        torch.cuda.current_stream().synchronize()  # x is ready; user_stream.py does without this
    session.run_with_iobinding(binding)
    small_model.check(to_numpy(y), values)

    # Out: what the session allocated becomes a tensor that keeps it alive.
    binding.bind_output("y", place)
    session.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    result = (torch or np).from_dlpack(value)
    small_model.check(to_numpy(result), values)
    if address(result) != value.data_ptr():
        raise ValueError("the result was copied")
    print(f"{(torch or np).__name__} tensors in {place} memory, in and out without copies")


def to_numpy(tensor: object) -> np.ndarray:
    return tensor.cpu().numpy() if torch is not None else np.asarray(tensor)


def address(tensor: object) -> int:
    return tensor.data_ptr() if torch is not None else tensor.ctypes.data


if __name__ == "__main__":
    main()
