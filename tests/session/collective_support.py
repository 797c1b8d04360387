"""Groups of ranks for session tests: threads of this process with a device each, or processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import queue
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from tests.session.collective_models import TIMEOUT_S
from tests.session.suite import EP, SkippedError, add_provider, devices, simulated

HOST = tuple(int(part) for part in ort.__version__.split(".")[:2])
SESSIONS_SIDE_BY_SIDE = (1, 32)  # Python threads that each make a session do so at once
# What a rank does: rank, size, file -> something that can be sent to another process.
Work = Callable[[int, int, str], Any]


def session(model: bytes, options: dict[str, str], ordinal: int = 0, cpu_allowed: bool = False) -> ort.InferenceSession:
    """On the device of that ordinal, with every node on the provider."""
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    if not cpu_allowed:
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    found = devices()
    add_provider(settings, options, [found[ordinal % len(found)]])
    made = ort.InferenceSession(model, settings, enable_fallback=0)
    made.disable_fallback()
    return made


def in_threads(size: int, work: Work) -> list[Any]:
    """What each rank returned, or the text of its error; ranks are threads, each for the device of its number."""
    if len(devices()) < size:
        raise SkippedError(f"needs {size} devices, has {len(devices())}")
    if size > 1 and HOST < SESSIONS_SIDE_BY_SIDE:
        raise SkippedError("this host's Python package holds the interpreter's lock while it makes a session")
    results: list[Any] = [None] * size
    with tempfile.TemporaryDirectory() as folder:

        def run(rank: int) -> None:
            results[rank] = _outcome(work, rank, size, str(Path(folder) / "group"))

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def in_processes(size: int, work: Work, library: str) -> list[Any]:
    """The same with a process for each rank; `work` is a function of a module. One that was killed has None."""
    if not simulated() and len(devices()) < size:
        raise SkippedError(f"needs {size} GPUs, has {len(devices())}")
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    results: list[Any] = [None] * size
    with tempfile.TemporaryDirectory() as folder:
        arguments = (size, str(Path(folder) / "group"), work, library, answers)
        children = [context.Process(target=_child, args=(rank, *arguments)) for rank in range(size)]
        for child in children:
            child.start()
        for child in children:
            child.join(3 * TIMEOUT_S)
            if child.is_alive():
                child.kill()
        while True:
            try:
                rank, result = answers.get(timeout=0.2)
            except queue.Empty:
                return results
            results[rank] = result


def _child(rank: int, size: int, file: str, work: Work, library: str, answers: Any) -> None:
    ort.register_execution_provider_library(EP, library)
    answers.put((rank, _outcome(work, rank, size, file)))


def _outcome(work: Work, rank: int, size: int, file: str) -> Any:
    try:
        return work(rank, size, file)
    except Exception as error:
        if os.environ.get("CUDAEP_TEST_TRACE"):
            traceback.print_exc()
        return f"error: {error}"


def value_of(rank: int, shape: tuple[int, ...], kind: type = np.float32) -> np.ndarray:
    """Small whole numbers that differ between ranks and places."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 5 + rank * 3) % 7 + 1).astype(kind).reshape(shape)
