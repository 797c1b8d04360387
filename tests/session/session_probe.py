"""The test build of the plug-in (tests/session/probe): what its simulated device counted, and an application's side."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from tests.session.suite import SkippedError

_FIELDS = (
    *("launches", "host_work", "host_to_device", "device_to_host", "device_to_device", "pageable_copies"),
    *("device_syncs", "stream_syncs", "event_syncs", "queries", "device_allocations", "device_frees"),
    *("async_allocations", "pool_growths", "host_allocations", "host_callbacks", "event_records", "event_waits"),
    "graph_launches",
)
_WAITS = ("device_syncs", "stream_syncs", "event_syncs")
_DRIVER = ("device_allocations", "device_frees", "async_allocations", "pool_growths", "host_allocations")


def path_beside(library: str) -> Path:
    """Where the build puts the probe."""
    return Path(library).parent / "libsession_probe.so"


class Counters:
    """What happened on the device between two moments."""

    def __init__(self, values: list[int]) -> None:
        self.values = dict(zip(_FIELDS, values, strict=True))

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    def __sub__(self, earlier: Counters) -> Counters:
        return Counters([self.values[name] - earlier.values[name] for name in _FIELDS])

    def waits(self) -> dict[str, int]:
        """Synchronisations of any kind."""
        return {name: self.values[name] for name in _WAITS if self.values[name]}

    def driver_calls(self) -> dict[str, int]:
        """Allocations and frees that went to the driver."""
        return {name: self.values[name] for name in _DRIVER if self.values[name]}


class Probe:
    """The functions of the probe; an error raises with its text. Streams and memory are plain addresses."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        if not hasattr(self._library, "ProbeCounters"):
            assert Path(library) != path_beside(library), f"{library} has lost its probe"
            raise SkippedError(f"needs {path_beside(library).name}, a build for the simulated device")
        address, integer, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        signatures = {
            "StreamCreate": (address, [integer, integer]),
            "StreamDestroy": (text, [address]),
            "StreamSynchronize": (text, [address]),
            "DeviceSynchronize": (text, []),
            "StreamBusy": (integer, [address]),
            "CaptureBegin": (text, [address]),
            "CaptureEnd": (text, [address, ctypes.POINTER(ctypes.c_void_p)]),
            "GraphLaunch": (text, [address, address]),
            "GraphDestroy": (text, [address]),
            "Malloc": (address, [ctypes.c_size_t]),
            "Free": (text, [address]),
            "Produce": (text, [address, address, ctypes.c_float, ctypes.c_int64]),
            "Read": (text, [address, address, address, ctypes.c_size_t]),
            "ExternalTrim": (None, [ctypes.POINTER(ctypes.c_uint64)]),
            "Peek": (ctypes.c_float, [address]),
            "BytesInUse": (ctypes.c_size_t, [integer]),
            "Restrict": (None, [address]),
            "RefuseStreams": (None, [integer]),
            "Counters": (None, [ctypes.POINTER(ctypes.c_uint64)]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(self._library, f"Probe{name}")
            function.restype, function.argtypes = result, arguments

    def _call(self, name: str, *arguments: object) -> None:
        error = getattr(self._library, f"Probe{name}")(*arguments)
        if error is not None:
            raise RuntimeError(error.decode())

    def counters(self) -> Counters:
        values = (ctypes.c_uint64 * len(_FIELDS))()
        self._library.ProbeCounters(values)
        return Counters(list(values))

    def stream(self, ordinal: int = 0, blocking: bool = False) -> int:
        created = self._library.ProbeStreamCreate(ordinal, int(blocking))
        if created is None:
            raise RuntimeError(f"no stream on device {ordinal}")
        return int(created)

    def destroy_stream(self, stream: int) -> None:
        self._call("StreamDestroy", stream)

    def synchronize(self, stream: int) -> None:
        self._call("StreamSynchronize", stream)

    def synchronize_device(self) -> None:
        self._call("DeviceSynchronize")

    def is_busy(self, stream: int) -> bool:
        return bool(self._library.ProbeStreamBusy(stream))

    def begin_capture(self, stream: int) -> None:
        self._call("CaptureBegin", stream)

    def end_capture(self, stream: int) -> int:
        """A graph of what was captured, for `launch` and `destroy_graph`."""
        graph = ctypes.c_void_p()
        self._call("CaptureEnd", stream, ctypes.byref(graph))
        return int(graph.value or 0)

    def launch(self, graph: int, stream: int) -> None:
        self._call("GraphLaunch", graph, stream)

    def destroy_graph(self, graph: int) -> None:
        self._call("GraphDestroy", graph)

    def malloc(self, count: int) -> int:
        """Device memory for `count` floats."""
        return int(self._library.ProbeMalloc(4 * count))

    def free(self, pointer: int) -> None:
        self._call("Free", pointer)

    def external_allocator(self) -> dict[str, str]:
        """Options of a session whose memory is the application's."""
        calls = {"alloc": self._library.ProbeExternalAlloc, "free": self._library.ProbeExternalFree}
        return {f"gpu_external_{name}": str(ctypes.cast(call, ctypes.c_void_p).value) for name, call in calls.items()}

    def trim_external(self) -> tuple[int, int]:
        """Frees what that allocator got back: how many blocks are still out, and how many those were."""
        counts = (ctypes.c_uint64 * 2)()
        self._library.ProbeExternalTrim(counts)
        return counts[0], counts[1]

    def produce(self, stream: int, out: int, value: float, count: int) -> None:
        """Queues a producer that fills `count` floats; it runs when something waits for it."""
        self._call("Produce", stream, out, value, count)

    def read(self, stream: int, pointer: int, count: int) -> np.ndarray:
        """`count` floats after the work that `stream` has now."""
        out = np.empty(count, np.float32)
        self._call("Read", stream, out.ctypes.data, pointer, out.nbytes)
        return out

    def peek(self, pointer: int) -> float:
        """The first float there as it is now, whatever is queued."""
        return float(self._library.ProbePeek(pointer))

    def bytes_in_use(self, ordinal: int = 0) -> int:
        """Device memory that is allocated now."""
        return int(self._library.ProbeBytesInUse(ordinal))

    def restrict(self, stream: int | None) -> None:
        """Only this stream may be given work; None lifts it."""
        self._library.ProbeRestrict(stream)

    def refuse_streams(self, refuse: bool) -> None:
        """While set, no stream can be created."""
        self._library.ProbeRefuseStreams(int(refuse))
