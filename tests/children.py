"""Worker processes that take one case at a time, so that a crash or a hang costs that case alone."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

ROOT = Path(__file__).resolve().parents[1]

X = TypeVar("X")
Outcome = dict[str, Any]


class Child:
    """A worker: a case comes on a line of its standard input, a JSON object for it goes to its standard output."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, case: object, timeout: float) -> Outcome | None:
        """The outcome, or None when the child died or took too long; it is of no use after that."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{case}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        end = time.monotonic() + timeout
        while select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            line = self._process.stdout.readline()
            if not line:
                return None
            if line.startswith("{"):
                outcome: Outcome = json.loads(line)
                return outcome
        return None

    def end(self) -> str:
        """Ends it and says how."""
        self._process.kill()
        return f"exit code {self._process.wait()}"


class Worker(Protocol):
    """What run_all needs of a child."""

    def run(self, case: Any, timeout: float) -> Outcome | None: ...

    def end(self) -> str: ...


def run_all(start: Callable[[], Worker], cases: Iterable[X], timeout: float,
            jobs: int | None = None) -> Iterator[tuple[X, Outcome]]:  # fmt: skip
    """Outcomes as they come, {"outcome": "crash"} for a case that ended its child. `jobs`: one a core without it."""
    left, lock = iter(cases), threading.Lock()
    found: list[tuple[X, Outcome]] = []
    ready = threading.Condition()
    running = jobs or os.cpu_count() or 1

    def work() -> None:
        nonlocal running
        child: Worker | None = None
        try:
            while True:
                with lock:
                    try:
                        case = next(left)
                    except StopIteration:
                        return
                child = child or start()
                outcome = child.run(case, timeout)
                if outcome is None:
                    outcome, child = {"outcome": "crash", "detail": child.end()}, None
                with ready:
                    found.append((case, outcome))
                    ready.notify()
        finally:
            if child is not None:
                child.end()
            with ready:
                running -= 1
                ready.notify()

    with ThreadPoolExecutor(running) as pool:
        futures = [pool.submit(work) for _ in range(running)]
        while True:
            with ready:
                ready.wait_for(lambda: found or running == 0)
                batch, found[:] = list(found), []
                done = running == 0
            yield from batch
            if done:
                break
        for future in futures:
            future.result()
