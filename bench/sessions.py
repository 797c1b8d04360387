"""A session of one case with everything bound in device memory, and the device's own copy to compare with."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.subjects import EP, Subject

_ROTATION_BYTES = 256 << 20  # that pass through memory before a buffer comes round again; several times any L2 cache
_NVIDIA = 0x10DE


class BoundSession:
    """Runs of one session on inputs and outputs that stay in the provider's memory.

    `request` names files: model, inputs (.npz), expected (.npz, of the sampled rows) and has for each output its dims
    and type, for those `in_place` the input whose buffer they are bound to, the sampled rows, the tolerance. Raises
    what the host raises, and RuntimeError for a wrong result.
    """

    def __init__(self, subject: Subject, device: Any, request: dict[str, Any]) -> None:
        """`device`: the plug-in's, None for other providers."""
        import onnxruntime as ort

        self._ort, self._subject, self._request = ort, subject, request
        with np.load(request["inputs"]) as archive:
            feeds = {name: archive[name] for name in archive.files}
        self._session = self._create(device, {name: array.shape for name, array in feeds.items()})
        self.placement = self._read_placement()
        with np.load(request["expected"]) as archive:
            self._expected = {name: archive[name] for name in archive.files}
        outputs = {
            name: np.full(request["outputs"][name], np.nan if dtype.startswith("float") else 1, dtype)
            for name, dtype in request["dtypes"].items()
            if name not in request["in_place"]
        }  # what is not written shows
        bytes_of_set = sum(array.nbytes for array in (*feeds.values(), *outputs.values()))
        sets = 1 + -(-_ROTATION_BYTES // bytes_of_set) if request["rotate"] and not request["tiny"] else 1
        self._sets = [self._bind(feeds, outputs, number) for number in range(sets)]
        self._next = 0

    def run_us(self) -> float:
        """One Run, waited for; each call takes the next set of buffers."""
        binding, options, _ = self._sets[self._next]
        self._next = (self._next + 1) % len(self._sets)
        begin = time.perf_counter()
        self._session.run_with_iobinding(binding, options)
        return 1e6 * (time.perf_counter() - begin)

    def check(self) -> float:
        """The largest |output - reference| / |reference| of the last Run's outputs; RuntimeError if too large."""
        largest = 0.0
        _, _, values = self._sets[self._next - 1]
        for name, expected in self._expected.items():
            found = values[name].numpy()
            rows = self._request["sample"]
            found = (found if rows is None else found[rows]).astype(np.float64)
            error = np.linalg.norm(found - expected) / np.linalg.norm(expected.astype(np.float64))
            if not error <= self._request["tolerance"]:
                raise RuntimeError(f"wrong result: output {name} is off by {error:.3g} of its norm")
            largest = max(largest, float(error))
        return largest

    def close(self) -> None:
        """Gives session and buffers back."""
        self._sets.clear()
        self._session = None

    def _create(self, device: Any, shapes: dict[str, tuple[int, ...]]) -> Any:
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = 1  # a pool would spin on into the next subject's turn
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if not self._request["optimised"]:
            options.graph_optimization_level = self._ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        model, chosen = self._request["model"], self._subject.options
        if self._subject.fixed:
            _fix_dimensions(options, model, shapes)
        if self._subject.offline:
            model = _optimise_offline(model, self._subject.offline)
        if self._subject.kind == "plugin":
            options.add_provider_for_devices([device], chosen)
            return self._ort.InferenceSession(model, options, enable_fallback=0)
        if self._subject.kind == "cpu":
            return self._ort.InferenceSession(model, options, providers=["CPUExecutionProvider"], enable_fallback=0)
        if EP not in self._ort.get_available_providers():
            raise RuntimeError(f"onnxruntime {self._ort.__version__} in use has no {EP}")
        session = self._ort.InferenceSession(model, options, providers=[(EP, chosen)], enable_fallback=0)
        if EP not in session.get_providers():
            raise RuntimeError(f"the host left {EP} out; its libraries may be missing")
        return session

    def _read_placement(self) -> dict[str, int]:
        """Nodes on each provider, as the host assigned them before its last fusions."""
        counts: dict[str, int] = {}
        for part in self._session.get_provider_graph_assignment_info():
            counts[part.ep_name] = counts.get(part.ep_name, 0) + len(part.get_nodes())
        return counts

    def _bind(self, feeds: dict[str, np.ndarray], outputs: dict[str, np.ndarray], number: int) -> tuple[Any, Any, Any]:
        binding, options = self._session.io_binding(), None  # options cost the host 40 us a Run
        if number > 0 and "enable_cuda_graph" in self._subject.options:
            options = self._ort.RunOptions()
            options.add_run_config_entry("gpu_graph_id", str(number))  # a graph holds its addresses
        inputs = {name: self._value(array) for name, array in feeds.items()}
        values = {name: self._value(array) for name, array in outputs.items()}
        values |= {name: inputs[given] for name, given in self._request["in_place"].items()}
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in values.items():
            binding.bind_ortvalue_output(name, value)
        return binding, options, values

    def _value(self, array: np.ndarray) -> Any:
        make = self._ort.OrtValue.ortvalue_from_numpy
        if self._subject.kind == "plugin":
            return make(array, "gpu", 0, _NVIDIA)
        return make(array, "cpu" if self._subject.kind == "cpu" else "cuda", 0)


class DeviceCopy:
    """A copy from device memory to device memory by the driver, which other figures are shares of."""

    def __init__(self, size: int) -> None:
        """Two blocks of `size` bytes, random ones in the first."""
        self._driver, self._size = ctypes.CDLL("libcuda.so.1"), size
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._blocks = [ctypes.c_uint64(), ctypes.c_uint64()]
        pattern = np.resize(np.random.default_rng(3).integers(0, 256, 1_000_003, np.uint8), size)
        for block in self._blocks:
            self._call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size))
        self._call("cuMemcpyHtoD_v2", self._blocks[0], pattern.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(size))

    def run_us(self) -> float:
        """One copy, waited for."""
        begin = time.perf_counter()
        self._call("cuMemcpyDtoD_v2", self._blocks[1], self._blocks[0], ctypes.c_size_t(self._size))
        self._call("cuCtxSynchronize")
        return 1e6 * (time.perf_counter() - begin)

    def close(self) -> None:
        """Gives the memory back."""
        for block in self._blocks:
            self._call("cuMemFree_v2", block)

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name} failed with error {result}")


def _fix_dimensions(options: Any, model: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """Sets each open dimension that has a name to what the inputs have there."""
    import onnx

    for value in onnx.load(model, load_external_data=False).graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            if dim.dim_param:
                options.add_free_dimension_override_by_name(dim.dim_param, size)


def _optimise_offline(model: str, kind: str) -> str:
    """The model after the host's own offline optimiser for transformers, in a file beside it."""
    from onnxruntime.transformers import optimizer

    path = Path(f"{model}.{kind}.onnx")
    if not path.is_file():
        optimised = optimizer.optimize_model(model, model_type=kind, opt_level=0, use_gpu=True)
        optimised.save_model_to_file(str(path))
    return str(path)
