"""The C interface of tests/op/driver: operators without the host."""

import ctypes
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .dtypes import code_of, from_storage, name_of, name_of_code, numpy_dtype, to_storage

LIBRARY_DIR_VARIABLE = "CUDAEP_TEST_LIB_DIR"
_LIBRARY = "libcudaep_op_driver.so"
_ROOT = Path(__file__).resolve().parents[3]

SLICED_ELEMS = 64  # up to which SLICED changes nothing
BROKEN_DOMAIN = "test.broken"  # of the driver's own operators with deliberate bugs
USER_STREAM, GRAPH, SHIFTED, SLICED, CREATE = range(5)  # enum Mode of node_run.h


def library_dir() -> Path:
    """Where the libraries under test are: the simulated device's, unless CUDAEP_TEST_LIB_DIR says otherwise."""
    return Path(os.environ.get(LIBRARY_DIR_VARIABLE) or _ROOT / "build" / "sim" / "lib")


@dataclass(frozen=True)
class Row:
    """A row of the registry (ops/registry.h); types by name."""

    kind: str  # "operator"; "if", "loop" or "scan" for what the host runs
    domain: str
    op: str
    since: int
    until: int
    types: dict[str, frozenset[str]]
    host_inputs: tuple[int, ...]
    host_outputs: tuple[int, ...]
    aliases: tuple[tuple[int, int], ...]
    in_place: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}.{self.op} {self.since}-{self.until}"


@dataclass(frozen=True)
class NodeSpec:
    """A node with its inputs. `attrs` are already of the kinds that the schema wants; absent outputs have type ""."""

    domain: str
    op: str
    since: int
    attrs: Mapping[str, Any]
    inputs: Sequence[np.ndarray | None]
    replay_inputs: Sequence[np.ndarray | None]
    outputs: Sequence[str]
    constants: frozenset[int]
    options: Mapping[str, int]


@dataclass(frozen=True)
class RunResult:
    """Outcome of a run; `launches` has the outputs of each launch (None for absent ones), of CREATE only the shapes."""

    code: str
    message: str
    shared: bool
    launches: list[list[np.ndarray | None]]


class Driver:
    """The loaded driver library."""

    def __init__(self, path: Path) -> None:
        """Loads the library; OSError when that fails."""
        self._lib = ctypes.CDLL(str(path))
        _declare(self._lib)
        self.backend: str = self._lib.cudaep_op_backend().decode()
        rows = [_row(fields) for fields in json.loads(self._lib.cudaep_op_registry())]
        self.rows = [row for row in rows if row.domain != BROKEN_DOMAIN]
        self._rows_of: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            self._rows_of.setdefault((row.domain, row.op), []).append(row)

    def options(self) -> list[dict[str, str]]:
        """The provider's options table: name, accepts, default, doc, kind."""
        return list(json.loads(self._lib.cudaep_op_options()))

    def device_count(self) -> int:
        """Devices that the driver finds; -1 when it cannot be asked."""
        return int(self._lib.cudaep_op_device_count())

    def row(self, domain: str, op: str, since: int) -> Row | None:
        """The row that covers a schema version of an operator."""
        return next((row for row in self._rows_of.get((domain, op), ()) if row.since <= since <= row.until), None)

    def run(self, node: NodeSpec, mode: int, share: tuple[int, int] | None = None) -> RunResult:
        """Runs a node. `share` is an input and the output that takes its buffer over, where shapes allow it."""
        return self._run(node, lambda job: self._lib.cudaep_op_run(job, mode, *(share or (-1, -1))))

    def run_on_host(self, node: NodeSpec) -> RunResult:
        """Evaluates a node in host memory, as a compiled region does; NOT_SUPPORTED where that is not offered."""
        return self._run(node, self._lib.cudaep_op_run_on_host)

    def _run(self, node: NodeSpec, start: Callable[[int], int]) -> RunResult:
        lib = self._lib
        job = lib.cudaep_op_new(node.domain.encode(), node.op.encode(), node.since)
        try:
            self._describe(job, node)
            start(job)
            bytes_ = ctypes.c_size_t()
            text = lib.cudaep_op_message(job, ctypes.byref(bytes_))
            message = ctypes.string_at(text, bytes_.value).decode() if bytes_.value else ""
            code = lib.cudaep_op_code_name(job).decode()
            launches = [] if code != "OK" else [
                [self._output(job, launch, index, name) for index, name in enumerate(node.outputs)]
                for launch in range(lib.cudaep_op_launches(job))
            ]  # fmt: skip
            return RunResult(code, message, bool(lib.cudaep_op_shared(job)), launches)
        finally:
            lib.cudaep_op_delete(job)

    def _describe(self, job: int, node: NodeSpec) -> None:
        lib = self._lib
        for name, value in node.attrs.items():
            _set_attribute(lib, job, name.encode(), value)
        for name, value in node.options.items():
            if lib.cudaep_op_set_option(job, name.encode(), int(value)) != 0:
                raise ValueError(f"the driver knows no option {name!r}")
        for index, (array, replay) in enumerate(zip(node.inputs, node.replay_inputs, strict=True)):
            if array is None or replay is None:
                lib.cudaep_op_add_input(job, 0, None, 0, None, None, 0, 0)
                continue
            dims = (ctypes.c_int64 * array.ndim)(*array.shape)
            first, second = to_storage(array), to_storage(replay)
            lib.cudaep_op_add_input(job, code_of(name_of(array)), dims, array.ndim, first.ctypes.data,
                                    second.ctypes.data, first.nbytes, int(index in node.constants))  # fmt: skip
        for name in node.outputs:
            lib.cudaep_op_add_output(job, code_of(name))

    def _output(self, job: int, launch: int, index: int, dtype: str) -> np.ndarray | None:
        if not dtype:
            return None
        lib = self._lib
        rank = lib.cudaep_op_output_rank(job, launch, index)
        shape = lib.cudaep_op_output_dims(job, launch, index)[:rank]
        if any(dim < 0 for dim in shape):
            return None  # created only, and the shape depends on the values
        bytes_ = ctypes.c_size_t()
        data = lib.cudaep_op_output_data(job, launch, index, ctypes.byref(bytes_))
        if bytes_.value == 0:  # no values, or none asked for
            return np.broadcast_to(np.zeros((), numpy_dtype(dtype)), shape)
        raw = memoryview((ctypes.c_uint8 * bytes_.value).from_address(data))  # string_at counts with 31 bits
        return from_storage(np.frombuffer(raw, np.uint8).copy(), dtype, shape)


@functools.cache
def load() -> Driver:
    """The driver in `library_dir()`. FileNotFoundError names what to build when it is not there."""
    path = library_dir() / _LIBRARY
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: build it with `make sim`, or set {LIBRARY_DIR_VARIABLE}")
    return Driver(path)


def _row(fields: dict[str, Any]) -> Row:
    return Row(
        kind=fields["kind"],
        domain=fields["domain"],
        op=fields["op"],
        since=fields["since"],
        until=fields["until"],
        types={name: frozenset(filter(None, map(name_of_code, codes))) for name, codes in fields["types"].items()},
        host_inputs=tuple(fields["host_inputs"]),
        host_outputs=tuple(fields["host_outputs"]),
        aliases=tuple((a, b) for a, b in fields["aliases"]),
        in_place=tuple((a, b) for a, b in fields["in_place"]),
    )


def _set_attribute(lib: ctypes.CDLL, job: int, name: bytes, value: Any) -> None:
    if isinstance(value, str):
        lib.cudaep_op_set_string(job, name, value.encode())
    elif isinstance(value, int):
        lib.cudaep_op_set_int(job, name, value)
    elif isinstance(value, float):
        lib.cudaep_op_set_float(job, name, value)
    elif isinstance(value, np.ndarray):
        data = to_storage(value)
        dims = (ctypes.c_int64 * max(value.ndim, 1))(*value.shape)
        lib.cudaep_op_set_tensor(job, name, code_of(name_of(value)), dims, value.ndim, data.ctypes.data, data.nbytes)
    elif value and isinstance(value[0], str):
        texts = (ctypes.c_char_p * len(value))(*[text.encode() for text in value])
        lib.cudaep_op_set_strings(job, name, texts, len(value))
    elif value and isinstance(value[0], float):
        lib.cudaep_op_set_floats(job, name, (ctypes.c_float * len(value))(*value), len(value))
    else:
        lib.cudaep_op_set_ints(job, name, (ctypes.c_int64 * len(value))(*value), len(value))


def _declare(lib: ctypes.CDLL) -> None:
    """The signatures of c_api.cc."""
    text, handle, integer, size = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    pointer, int64 = ctypes.c_void_p, ctypes.c_int64
    size_out = ctypes.POINTER(size)
    for name, result, arguments in (
        ("backend", text, []),
        ("device_count", integer, []),
        ("registry", text, []),
        ("options", text, []),
        ("new", handle, [text, text, integer]),
        ("delete", None, [handle]),
        ("set_int", None, [handle, text, int64]),
        ("set_float", None, [handle, text, ctypes.c_float]),
        ("set_string", None, [handle, text, text]),
        ("set_ints", None, [handle, text, pointer, size]),
        ("set_floats", None, [handle, text, pointer, size]),
        ("set_strings", None, [handle, text, pointer, size]),
        ("set_tensor", None, [handle, text, integer, pointer, size, pointer, size]),
        ("set_option", integer, [handle, text, int64]),
        ("add_input", None, [handle, integer, pointer, size, pointer, pointer, size, integer]),
        ("add_output", None, [handle, integer]),
        ("run", integer, [handle, integer, integer, integer]),
        ("run_on_host", integer, [handle]),
        ("code_name", text, [handle]),
        ("message", pointer, [handle, size_out]),
        ("shared", integer, [handle]),
        ("launches", integer, [handle]),
        ("output_rank", integer, [handle, integer, integer]),
        ("output_dims", ctypes.POINTER(int64), [handle, integer, integer]),
        ("output_data", pointer, [handle, integer, integer, size_out]),
    ):
        function = getattr(lib, f"cudaep_op_{name}")
        function.restype = result
        function.argtypes = arguments
