"""A child of the driver: one provider in one process, doing one step at a time as it is told.

    python -m bench.worker SUBJECT      SUBJECT: a bench.subjects.Subject as JSON

Requests and replies are lines of JSON on standard input and output; whatever libraries print goes to standard error.
hello -> what this process runs on; open -> a session, checked and warm; measure -> one repeat; close -> checked again.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from ort_cuda_ep import gpu_driver_present
from ort_cuda_ep._statistics import read_statistics

from bench.activities import Recorder, by_name, split
from bench.sessions import BoundSession, DeviceCopy
from bench.subjects import EP, Subject

Reply = dict[str, Any]
WARM_UP_SECONDS, TINY_WARM_UP_SECONDS, WARM_UP_RUNS = 0.3, 0.03, 5
COMPILE_SECONDS = 60.0  # at most, until engines that are compiled in the background are there
STEP_SECONDS = 0.06  # of one repeat: long enough for a median, short enough that drift hits all subjects alike
SETTLE_SECONDS = 0.02  # after the other subjects' turns
MOST_RUNS, MOST_TRACED_RUNS = 300, 30


class Session(Protocol):
    """A model that is run again and again."""

    placement: dict[str, int]

    def run_us(self) -> float:
        """Host time of one Run and its wait."""

    def check(self) -> float | None:
        """How far the last outputs are from the reference, where there is one; RuntimeError if too far."""

    def close(self) -> None:
        """Gives everything back."""


class BareLoop:
    """Launches without any host or provider, through the launch loop's library."""

    def __init__(self, library: str, launches: int) -> None:
        """Loads the library."""
        self._loop = ctypes.CDLL(library)
        self._loop.LaunchLoopUs.restype = ctypes.c_double
        self._launches = launches

    def run_us(self) -> float:
        """The loop and its wait."""
        us = float(self._loop.LaunchLoopUs(self._launches))
        if us < 0:
            raise RuntimeError("the launch loop failed")
        return us * self._launches


class Worker:
    """The state between requests: at most one thing to measure."""

    def __init__(self, subject: Subject) -> None:
        """Loads nothing yet."""
        self._subject = subject
        self._recorder: Recorder | None = None
        self._no_recorder = "not a GPU"
        self._bound: Session | DeviceCopy | None = None
        self._run_us: Callable[[], float] = lambda: 0.0
        self._runs = self._traced_runs = 0
        self._timeline: list[dict[str, float | str]] = []

    def hello(self) -> Reply:
        """Loads the provider."""
        if self._subject.kind == "bare":
            return {"onnxruntime": "", "device": "", "simulated": "sim" in Path(self._subject.library).name}
        if self._subject.kind != "cpu" and gpu_driver_present():
            try:
                self._recorder = Recorder()
            except (OSError, RuntimeError) as error:
                self._no_recorder = str(error)
        if self._subject.kind == "torch":
            return self._hello_torch()
        import onnxruntime as ort

        ort.set_default_logger_severity(3)
        device, simulated = "CPU", False
        if self._subject.kind == "plugin":
            ort.register_execution_provider_library(EP, self._subject.library)
            metadata = self._device().ep_metadata
            device, simulated = metadata.get("name", ""), metadata.get("simulated") == "1"
        elif self._subject.kind == "builtin":
            if hasattr(ort, "preload_dlls"):
                ort.preload_dlls()
            device = "GPU"
        if simulated:
            self._recorder = None
        return {
            "onnxruntime": ort.__version__,
            "device": device,
            "simulated": simulated,
            "device_clock": self._clock(),
            "libraries": _libraries(),
        }

    def _hello_torch(self) -> Reply:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} finds no GPU")
        name = torch.cuda.get_device_name()
        return {"onnxruntime": "", "torch": torch.__version__, "device": name, "device_clock": self._clock()}

    def _clock(self) -> str:
        return "CUPTI" if self._recorder else f"none: {self._no_recorder}"

    def open(self, request: dict[str, Any]) -> Reply:
        """A session (or what stands for one), its first results checked, warm."""
        self.close({})
        reply: Reply = {}
        if self._subject.kind == "bare":
            self._run_us = BareLoop(self._subject.library, request["launches"]).run_us
        elif request.get("copy_bytes"):
            if self._recorder is None:
                raise RuntimeError(f"the device's copy needs a device clock; {self._no_recorder}")
            copy = DeviceCopy(request["copy_bytes"])
            self._bound, self._run_us = copy, copy.run_us
        else:
            begin = time.perf_counter()
            bound = self._session(request)
            reply["create_ms"] = 1e3 * (time.perf_counter() - begin)
            reply["first_run_ms"] = bound.run_us() / 1e3
            reply["placement"] = bound.placement
            reply.update(_checked(bound))
            self._bound, self._run_us = bound, bound.run_us
        tiny = request.get("tiny")
        self._warm_up(TINY_WARM_UP_SECONDS if tiny else WARM_UP_SECONDS)
        compiles = self._subject.kind == "plugin" and self._subject.options.get("compiled_engines") != "0"
        if compiles and request.get("is_model") and not tiny:
            end = time.perf_counter() + COMPILE_SECONDS
            while read_statistics(self._subject.library)["plans"]["in_background"] > 0 and time.perf_counter() < end:
                self._warm_up(TINY_WARM_UP_SECONDS)
            self._warm_up(WARM_UP_SECONDS)
        return reply

    def measure(self, _request: dict[str, Any]) -> Reply:
        """One repeat: the median host time of a Run, then, recorded, what the device did in one."""
        begin = time.perf_counter()
        while time.perf_counter() - begin < SETTLE_SECONDS:
            self._run_us()
        reply: Reply = {"wall_us": statistics.median(self._run_us() for _ in range(self._runs))}
        if self._recorder is None:
            return reply
        self._run_us()
        self._recorder.start()
        for _ in range(self._traced_runs):
            self._run_us()
        activities = self._recorder.stop()
        times = split(activities, self._traced_runs)
        if times:
            times = times[len(times) // 2 :]  # clocks have settled by then
            reply["device_us"] = statistics.median(run.busy_us for run in times)
            reply["span_us"] = statistics.median(run.span_us for run in times)
        elif activities:
            reply["device_us"] = sum(one.end - one.start for one in activities) / 1e3 / self._traced_runs
        reply["activities"] = len(activities) / self._traced_runs
        self._timeline = by_name(activities, self._traced_runs)
        return reply

    def close(self, _request: dict[str, Any]) -> Reply:
        """Checks the last Run's results too, gives the last repeat's timeline, and lets go of the session."""
        reply: Reply = {}
        if self._bound is not None and not isinstance(self._bound, DeviceCopy):
            reply = {**_checked(self._bound), "timeline": self._timeline}
        if self._bound is not None:
            self._bound.close()
        self._bound, self._timeline, self._run_us = None, [], lambda: 0.0
        return reply

    def _session(self, request: dict[str, Any]) -> Session:
        if self._subject.kind == "torch":
            from bench.torch_session import TorchSession

            return TorchSession(self._subject, request)
        return BoundSession(self._subject, self._device() if self._subject.kind == "plugin" else None, request)

    def _warm_up(self, seconds: float) -> None:
        begin, samples = time.perf_counter(), list[float]()
        while len(samples) < WARM_UP_RUNS or time.perf_counter() - begin < seconds:
            samples.append(self._run_us())
        run_us = max(1.0, statistics.median(samples[len(samples) // 2 :]))
        self._runs = int(max(3, min(MOST_RUNS, STEP_SECONDS * 1e6 / run_us)))
        self._traced_runs = int(max(2, min(MOST_TRACED_RUNS, STEP_SECONDS * 1e6 / 2 / run_us)))

    def _device(self) -> Any:
        import onnxruntime as ort

        found = [d for d in ort.get_ep_devices() if d.ep_name == EP and "simulated" in d.ep_metadata]
        if not found:
            raise RuntimeError("the library offers no device")
        return found[0]


def _checked(session: Session) -> Reply:
    """What a check of the last outputs adds to a reply: torch's weights are its own, so it has no reference."""
    error = session.check()
    return {} if error is None else {"error_norm": error}


def _libraries() -> dict[str, str]:
    """Versions of the vendor packages of this environment."""
    named = {str(entry.name): entry.version for entry in importlib.metadata.distributions() if entry.name}
    return {name: version for name, version in sorted(named.items()) if name.startswith(("nvidia-cu", "nvidia-nvrtc"))}


def serve(worker: Worker) -> None:
    """Answers requests until standard input ends."""
    actions = {"open": worker.open, "measure": worker.measure, "close": worker.close}
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        action = request.pop("do")
        try:
            reply = worker.hello() if action == "hello" else actions[action](request)
        except Exception as error:  # the driver reports it and goes on with the other subjects
            reply = {"error": f"{type(error).__name__}: {error}"[:2000]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def pin() -> None:
    """To two CPUs, the same ones for all workers: moving between CPUs made host times differ by half."""
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) >= 4:
        os.sched_setaffinity(0, mine[2:4])


if __name__ == "__main__":
    pin()
    np.seterr(all="ignore")
    serve(Worker(Subject(**json.loads(sys.argv[1]))))
