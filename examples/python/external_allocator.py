"""A session whose device memory comes from the application, which then knows of every byte.

With PyTorch and a GPU it is PyTorch's caching allocator, so that both share what is cached. Elsewhere the application's
allocator is a few lines that count.
"""

import ctypes
import gc
from collections.abc import Callable

import numpy as np
import onnxruntime as ort
import ort_cuda_ep
import small_model

ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Counting:
    """An allocator of the application's; what ONNX Runtime keeps in device values stands for memory of its own."""

    def __init__(self) -> None:
        self.blocks: dict[int, ort.OrtValue] = {}

    def alloc(self, size: int) -> int:
        block = ort.OrtValue.ortvalue_from_shape_and_type([size], np.uint8, "cuda", 0)
        self.blocks[block.data_ptr()] = block
        return block.data_ptr()

    def free(self, address: int) -> None:
        del self.blocks[address]

    def used(self) -> int:
        return sum(block.tensor_size_in_bytes() for block in self.blocks.values())


class Torch:
    """PyTorch's, on its current stream: the legacy default one, unless `user_compute_stream` is given and current."""

    def __init__(self, torch) -> None:
        self.alloc: Callable[[int], int] = torch.cuda.caching_allocator_alloc
        self.free: Callable[[int], None] = torch.cuda.caching_allocator_delete
        self.used: Callable[[], int] = torch.cuda.memory_allocated


def choose() -> Counting | Torch:
    try:
        import torch
    except ImportError:
        return Counting()
    return Counting() if ort_cuda_ep.is_simulated(ort_cuda_ep.devices()[0]) else Torch(torch)


def main() -> None:
    ort_cuda_ep.install()
    memory = choose()
    # The session calls these addresses as long as it lives: so must the two objects.
    alloc, free = ALLOC(memory.alloc), FREE(memory.free)
    options = {
        "gpu_external_alloc": ctypes.cast(alloc, ctypes.c_void_p).value,
        "gpu_external_free": ctypes.cast(free, ctypes.c_void_p).value,
        "require_all_compute_nodes": True,
        "use_tf32": False,
    }
    before = memory.used()
    session = ort.InferenceSession(small_model.model(), providers=[("CUDAExecutionProvider", options)])
    weights = memory.used() - before
    if weights < small_model.W.nbytes:
        raise ValueError("the weights are somewhere else")
    x = small_model.rows(100)
    small_model.check(session.run(None, {"x": x})[0], x)
    most = memory.used() - before
    del session
    gc.collect()
    left = memory.used() - before
    print(f"{type(memory).__name__}: {weights} bytes of weights, {most} after a Run, {left} after the session")
    if left:
        raise ValueError("memory was not given back")


if __name__ == "__main__":
    main()
