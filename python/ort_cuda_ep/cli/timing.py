"""Timed Runs of a session, with progress on the terminal."""

import time

import numpy as np
import onnxruntime as ort

from .. import _provider
from .._statistics import statistics
from .output import errors

MOST_COMPILING_S = 60.0


def time_runs(session: ort.InferenceSession, feeds: dict[str, np.ndarray], repeat: int, quiet: bool) -> list[float]:
    """Milliseconds of each of `repeat` runs after one to warm up and what is compiled in the background for them."""
    times = []
    with errors.status("compiling") as status:
        if quiet:
            status.stop()
        session.run(None, feeds)
        end = time.perf_counter() + MOST_COMPILING_S
        waited = False
        while _compiles() and time.perf_counter() < end:
            waited = True
            time.sleep(0.01)
        if waited:  # what has come meanwhile is planned for and captured by the next one
            session.run(None, feeds)
        for index in range(repeat):
            start = time.perf_counter()
            session.run(None, feeds)
            times.append((time.perf_counter() - start) * 1e3)
            status.update(f"timing: run {index + 1} of {repeat}")
    return times


def _compiles() -> bool:
    return _provider.registered_library() is not None and statistics()["plans"]["in_background"] > 0


def quiet_options() -> ort.SessionOptions:
    """Options of a session whose errors come as exceptions."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options
