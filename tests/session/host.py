"""Sessions of stock ONNX Runtime on the plug-in under test.

The library is taken from CUDAEP_TEST_LIB_DIR (build/sim/lib without it) and registered once a process. Tests skip while
it does not exist, unless CUDAEP_REQUIRE_SESSION=1 makes that a failure.
"""

import ctypes
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime as ort
import pytest

from ..op.harness.dtypes import from_storage, to_storage

REQUIRE_VARIABLE = "CUDAEP_REQUIRE_SESSION"
EP_NAME = "CUDAExecutionProvider"

EXACT = {"use_tf32": "0"}  # what results can be compared under with those of the CPU
NODES = {"compiled_regions": "0"}  # what the host runs node by node, and saves

_ROOT = Path(__file__).resolve().parents[2]
_LIBRARIES = ("libort_cuda_ep.so", "libort_cuda_ep_sim.so")
# Types that numpy lacks, with their ONNX codes and bits.
_EXTENSIONS = {"bfloat16": (16, 16), "float8_e4m3fn": (17, 8), "float8_e4m3fnuz": (18, 8), "float8_e5m2": (19, 8),
               "float8_e5m2fnuz": (20, 8), "uint4": (21, 4), "int4": (22, 4), "float4_e2m1fn": (23, 4),
               "float8_e8m0fnu": (24, 8), "uint2": (25, 2), "int2": (26, 2)}  # fmt: skip
_NAME_OF = {code: name for name, (code, _) in _EXTENSIONS.items()}


def plugin_path() -> Path | None:
    """The library under test, or None when it has not been built."""
    folder = Path(os.environ.get("CUDAEP_TEST_LIB_DIR") or _ROOT / "build" / "sim" / "lib")
    return next((folder / name for name in _LIBRARIES if (folder / name).is_file()), None)


@functools.cache
def devices() -> tuple[Any, ...]:
    """Registers the library and returns its devices, by ordinal. Needs `plugin_path()`."""
    ort.register_execution_provider_library(EP_NAME, str(plugin_path()))
    found = tuple(device for device in ort.get_ep_devices() if device.ep_name == EP_NAME)
    if not found:
        raise RuntimeError(f"{plugin_path()} was registered and offers no device")
    return found


def require_plugin() -> None:
    """Skips the calling test, or fails it where sessions are required, when there is no library."""
    if plugin_path() is not None:
        return
    reason = f"no plug-in library ({' or '.join(_LIBRARIES)}) has been built"
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{reason}, and {REQUIRE_VARIABLE}=1")
    pytest.skip(reason)


def open_session(
    model: bytes | str | Path,
    provider_options: Mapping[str, str] | None = None,
    *,
    all_ours: bool = True,
    optimize: bool = False,
    config: Mapping[str, str] | None = None,
) -> ort.InferenceSession:
    """A session on the plug-in's first device.

    all_ours: session creation fails when the host would put any node on its CPU provider, which is the assertion that
    nodes were placed on ours. optimize: whether the host's graph optimisers run.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # no thread pool: a session takes a few milliseconds
    options.inter_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if all_ours:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for key, value in (config or {}).items():
        options.add_session_config_entry(key, value)
    options.add_provider_for_devices([devices()[0]], dict(provider_options or {}))
    # With the host's fallback a Run that fails on the device is repeated on the CPU, and nobody hears of it.
    source = model if isinstance(model, bytes) else str(model)
    session = ort.InferenceSession(source, sess_options=options, enable_fallback=0)
    session.disable_fallback()
    return session


def run(session: ort.InferenceSession, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """All outputs of a Run, also those of types that numpy lacks."""
    values = {name: to_ort_value(array) for name, array in feeds.items()}
    names = [output.name for output in session.get_outputs()]
    return [to_numpy(value) for value in session.run_with_ort_values(names, values)]


def to_ort_value(array: np.ndarray) -> ort.OrtValue:
    """A host tensor; types that numpy lacks travel as integers of their width."""
    if array.dtype.name not in _EXTENSIONS:
        return ort.OrtValue.ortvalue_from_numpy(array)
    code, bits = _EXTENSIONS[array.dtype.name]
    carrier = array.view({1: np.uint8, 2: np.uint16}[array.dtype.itemsize])
    if bits < 8:  # the packed elements, in front of room for whole bytes that the binding wants
        packed = to_storage(array)
        carrier = np.zeros(array.shape, np.uint8)
        carrier.reshape(-1)[: packed.size] = packed
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(carrier, code)


def to_numpy(value: ort.OrtValue) -> np.ndarray:
    """A copy of a tensor in host memory."""
    name = _NAME_OF.get(value.element_type())
    if name is None:
        return np.asarray(value.numpy())
    shape = value.shape()
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, np.dtype(getattr(ml_dtypes, name)))
    raw = (ctypes.c_uint8 * -(-count * _EXTENSIONS[name][1] // 8)).from_address(value.data_ptr())
    return from_storage(np.frombuffer(bytes(raw), np.uint8), name, shape)
