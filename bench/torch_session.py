"""A model of the benchmark run by torch itself: what else a user could have served it with."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from bench import torch_models
from bench.subjects import Subject


class TorchSession:
    """Calls of one module on inputs that stay on the device, in the cases' fp16; weights are the module's own.

    `request` names the model (`module`) and the inputs (.npz). Convolutional networks run channels last, which is
    torch's best. Raises KeyError for a model that torch has no module of, and RuntimeError for outputs that are not
    numbers.
    """

    placement: dict[str, int]

    def __init__(self, subject: Subject, request: dict[str, Any], device: str = "cuda") -> None:
        """Builds and, unless eager, compiles: that happens in the first Run."""
        mode = subject.options["mode"]
        module = torch_models.build(request["module"]).to(device, torch.float16)
        images = any(isinstance(part, torch.nn.Conv2d) for part in module.modules())
        if images:
            module = module.to(memory_format=torch.channels_last)
        with np.load(request["inputs"]) as archive:
            feeds = {name: torch.from_numpy(archive[name]).to(device) for name in archive.files}
        if images:
            feeds = {
                name: value.contiguous(memory_format=torch.channels_last) if value.ndim == 4 else value
                for name, value in feeds.items()
            }
        self._arguments: Any = torch_models.arguments(request["module"], feeds)
        self._call = module if mode == "eager" else torch.compile(module, mode=mode)
        self._device = device
        self._last: Any = None
        self.placement = {}

    def run_us(self) -> float:
        """One call, waited for."""
        begin = time.perf_counter()
        with torch.inference_mode():
            torch.compiler.cudagraph_mark_step_begin()
            self._last = self._call(*self._arguments)
        if self._device == "cuda":
            torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - begin)

    def check(self) -> None:
        """That the last outputs are finite."""
        outputs = [self._last] if isinstance(self._last, torch.Tensor) else self._last
        if not all(bool(torch.isfinite(output).all()) for output in outputs):
            raise RuntimeError("wrong result: an output is not finite")

    def close(self) -> None:
        """Gives module and memory back."""
        self._call = self._last = self._arguments = None
        torch.compiler.reset()
        if self._device == "cuda":
            torch.cuda.empty_cache()
