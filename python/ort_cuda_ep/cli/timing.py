"""Timed Runs of a session, with progress on the terminal."""

import time

import numpy as np
import onnxruntime as ort

from .output import errors


def time_runs(session: ort.InferenceSession, feeds: dict[str, np.ndarray], repeat: int, quiet: bool) -> list[float]:
    """Milliseconds of each of `repeat` runs after one to warm up."""
    session.run(None, feeds)
    times = []
    with errors.status("timing") as status:
        if quiet:
            status.stop()
        for index in range(repeat):
            start = time.perf_counter()
            session.run(None, feeds)
            times.append((time.perf_counter() - start) * 1e3)
            status.update(f"timing: run {index + 1} of {repeat}")
    return times


def quiet_options() -> ort.SessionOptions:
    """Options of a session whose errors come as exceptions."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options
