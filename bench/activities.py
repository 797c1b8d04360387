"""What the GPU did, from CUPTI's activity records: kernels, copies and fills of this process on the device's clock.

Layouts are those of CUDA 13: in all three kinds of record used here start and end (ns) lie at bytes 16 and 24, and a
kernel's name at byte 104 (CUpti_ActivityKernel10, CUpti_ActivityMemcpy6, CUpti_ActivityMemset4).
"""

from __future__ import annotations

import ctypes
import site
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_COPY, _FILL, _KERNEL = 1, 2, 10  # CUPTI_ACTIVITY_KIND_MEMCPY, _MEMSET, _CONCURRENT_KERNEL
_START, _END, _NAME = 16, 24, 104
_BUFFER_BYTES = 8 << 20
_NO_MORE_RECORDS = 12  # CUPTI_ERROR_MAX_LIMIT_REACHED
_Request = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_Complete = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)  # context, stream, buffer, its size, bytes used


@dataclass(frozen=True)
class Activity:
    """One kernel, copy or fill; nanoseconds of the device's clock."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class RunTime:
    """Of one Run, in us: with something running on the device, and from the first start to the last end."""

    busy_us: float
    span_us: float


class Recorder:
    """Records between `start` and `stop`, outside of which CUPTI is detached: attached it costs 1 us a launch.

    Not thread-safe, one a process.
    """

    def __init__(self, library: str = "") -> None:
        """Loads CUPTI, by default the one that is found; FileNotFoundError where there is none."""
        self._cupti = ctypes.CDLL(library or find_library())
        self._libc = ctypes.CDLL(None)
        self._libc.malloc.restype = ctypes.c_void_p
        self._libc.malloc.argtypes = [ctypes.c_size_t]
        self._libc.free.argtypes = [ctypes.c_void_p]
        self._names: dict[int, str] = {}
        self._found: list[Activity] = []
        self._error = ""
        # Kept alive for as long as CUPTI may call them.
        self._callbacks = _Request(self._give_buffer), _Complete(self._take_buffer)

    def start(self) -> None:
        """Begins; raises RuntimeError where the driver does not allow it."""
        self._found = []
        self._check(self._cupti.cuptiActivityRegisterCallbacks(*self._callbacks))
        for kind in (_COPY, _FILL, _KERNEL):
            self._check(self._cupti.cuptiActivityEnable(kind))

    def stop(self) -> list[Activity]:
        """Everything since `start`, in order. The device must be idle."""
        self._check(self._cupti.cuptiActivityFlushAll(1))
        for kind in (_COPY, _FILL, _KERNEL):
            self._check(self._cupti.cuptiActivityDisable(kind))
        self._check(self._cupti.cuptiFinalize())
        self._names.clear()  # keyed by addresses that were CUPTI's
        if self._error:
            raise RuntimeError(self._error)
        return sorted(self._found, key=lambda activity: activity.start)

    def _check(self, result: int) -> None:
        if result != 0:
            text = ctypes.c_char_p()
            self._cupti.cuptiGetResultString(result, ctypes.byref(text))
            raise RuntimeError(f"CUPTI: {(text.value or b'').decode() or result}")

    def _give_buffer(self, buffer: ctypes._Pointer, size: ctypes._Pointer, records: ctypes._Pointer) -> None:  # type: ignore[type-arg]
        buffer[0] = self._libc.malloc(_BUFFER_BYTES)
        size[0], records[0] = _BUFFER_BYTES, 0

    def _take_buffer(self, _context: int, _stream: int, buffer: int, _size: int, used: int) -> None:
        record = ctypes.c_void_p()
        while used:
            result = self._cupti.cuptiActivityGetNextRecord(
                ctypes.c_void_p(buffer), ctypes.c_size_t(used), ctypes.byref(record)
            )
            if result != 0 or not record.value:
                if result != _NO_MORE_RECORDS:
                    self._error = f"CUPTI could not read its records: error {result}"
                break
            self._found.append(self._read(record.value))
        self._libc.free(buffer)

    def _read(self, at: int) -> Activity:
        kind = ctypes.c_uint32.from_address(at).value
        start, end = (ctypes.c_uint64.from_address(at + offset).value for offset in (_START, _END))
        if kind != _KERNEL:
            return Activity({_COPY: "copy", _FILL: "fill"}.get(kind, f"kind {kind}"), start, end)
        name = ctypes.c_void_p.from_address(at + _NAME).value or 0
        if name not in self._names:
            self._names[name] = ctypes.string_at(name).decode(errors="replace") if name else "kernel"
        return Activity(self._names[name], start, end)


def find_library() -> str:
    """libcupti by name, from the nvidia packages, or from a toolkit. Raises FileNotFoundError if there is none."""
    folders = [Path(place) / "nvidia" for place in (*site.getsitepackages(), *sys.path) if place]
    found = [str(path) for folder in folders for path in sorted(folder.glob("*/lib/libcupti.so.13*"))]
    for place in ("lib64", "lib", "extras/CUPTI/lib64"):
        found += [str(path) for path in sorted(Path("/usr/local").glob(f"cuda*/{place}/libcupti.so.13*"))]
    for name in ("libcupti.so.13", *found):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return name
    raise FileNotFoundError("there is no libcupti: version 13, on the library path, in nvidia-cuda-cupti or a toolkit")


def split(activities: Sequence[Activity], runs: int) -> list[RunTime]:
    """The times of each of `runs` equal Runs. Empty when they did not do the same number of things each."""
    if not activities or len(activities) % runs:
        return []
    each = len(activities) // runs
    return [_run_time(activities[i : i + each]) for i in range(0, len(activities), each)]


def _run_time(activities: Sequence[Activity]) -> RunTime:
    busy, reached = 0, 0
    for activity in activities:  # by start; intervals that overlap count once
        busy += max(0, activity.end - max(reached, activity.start))
        reached = max(reached, activity.end)
    return RunTime(busy / 1e3, (reached - activities[0].start) / 1e3)


def by_name(activities: Sequence[Activity], runs: int) -> list[dict[str, float | str]]:
    """Calls and us a Run of each kernel, the longest first; C++ names in short."""
    totals: dict[str, tuple[int, int]] = {}
    for activity in activities:
        calls, time = totals.get(activity.name, (0, 0))
        totals[activity.name] = calls + 1, time + activity.end - activity.start
    rows = sorted(totals.items(), key=lambda row: -row[1][1])
    names = _readable([name for name, _ in rows])
    return [
        {"name": name, "calls": calls / runs, "us": time / 1e3 / runs}
        for name, (_, (calls, time)) in zip(names, rows, strict=True)
    ]


def _readable(names: list[str]) -> list[str]:
    try:
        shown = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return names
    return shown.stdout.split("\n")[: len(names)]
