"""Fuzzes the plug-in through the host's C ABI for a while: `make fuzz`, and the first cases of it in `make test`.

    python -m tests.fuzz.campaign [--seconds S] [--first NUMBER] [--host VERSION] [--library PLUGIN] [models|options]

A child process (`fuzz_host`) draws case after case; each is known by its number, which it writes down first. A child
that dies, hangs or reports a finding ends at a number: the campaign keeps that case as a file below --keep, looks
whether the host dies of it on its own CPU provider too, prints how to run it again, and goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import onnxruntime

from . import seeds

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).resolve().parent / "corpus"
KINDS = ("models", "options")
DEVICE_BYTES = 64 << 20  # what models ask for beyond it is an error, and soon
COUNTS = ("cases", "created", "ran", "skipped", "refused", "failed_runs")  # fuzz_host's struct Counts
STATE = struct.Struct(f"<{1 + len(COUNTS)}Q")
GRACE_S = 60  # a child ends itself after its time; its last case may be slow


@dataclass(frozen=True)
class Failure:
    """A case that ended in something other than a status."""

    kind: str
    number: int
    what: str
    host_alone: bool  # the host dies of it without the plug-in
    again: str  # the command that runs it
    file: Path

    def __str__(self) -> str:
        whose = "the host alone dies of it too" if self.host_alone else "not the host's"
        return f"{self.kind} case {self.number}: {self.what} ({whose})\n  kept as {self.file}\n  {self.again}"


@dataclass
class Result:
    """What a campaign saw. The case that a child died of counts as a case and as nothing else."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def ours(self) -> list[Failure]:
        return [failure for failure in self.failures if not failure.host_alone]


class Program:
    """`fuzz_host` on one host and one build of the plug-in."""

    def __init__(self, host: Path, plugin: Path, folder: Path) -> None:
        program = plugin.parent.parent / "bin" / "fuzz_host"
        if not program.is_file():
            raise FileNotFoundError(f"{program} is not built: make sim")
        self.command = [str(path.resolve()) for path in (program, host, plugin)]
        self._folder = folder
        # Options that name files get random names: the child works where these may lie.
        self._scratch = folder / "scratch"
        self._scratch.mkdir(parents=True, exist_ok=True)
        self.seeds = folder / "seeds"
        self.environment = {**os.environ, "CUDAEP_SIM_MEMORY_BYTES": str(DEVICE_BYTES)}

    def arguments(self, kind: str, *rest: str) -> list[str]:
        if kind == "models" and not self.seeds.exists():
            seeds.write(self.seeds)
        return [*self.command, kind, *(("--seeds", str(self.seeds)) if kind == "models" else ()), *rest]

    def run(self, arguments: list[str], seconds: float) -> tuple[int, str, str]:
        """Exit code (negative: a signal), output and errors; a child beyond its time is killed."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(arguments, stdout=out, stderr=errors, env=self.environment, cwd=self._scratch)
            try:
                code = child.wait(seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                code = -signal.SIGALRM
            texts = []
            for file in (out, errors):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        return code, texts[0], texts[1]

    def replay(self, file: Path, *rest: str) -> tuple[int, str]:
        code, _, errors = self.run([*self.command, "replay", str(file), *rest], 120)
        return code, errors

    def fuzz(
        self, kind: str, first: int, result: Result, keep: Path, *, seconds: float, cases: int | None = None
    ) -> int:
        """One child, for so long or so many cases; returns the number to go on from."""
        state = self._folder / "state"
        state.write_bytes(STATE.pack(first, *(0 for _ in COUNTS)))
        budget = ["--seconds", str(max(1, round(seconds))), "--state", str(state)]
        budget += [] if cases is None else ["--cases", str(cases)]
        code, _, errors = self.run(self.arguments(kind, "--first", str(first), *budget), seconds + GRACE_S)
        if code == 2:
            raise RuntimeError(f"fuzz_host does not run: {errors}")
        number, *counts = STATE.unpack(state.read_bytes())
        result.counts.update(dict(zip(COUNTS, counts, strict=True)))
        if code == 0:
            return int(number)
        result.counts["cases"] += 1
        result.failures.append(self._keep(kind, number, code, errors, keep))
        return int(number) + 1

    def _keep(self, kind: str, number: int, code: int, errors: str, keep: Path) -> Failure:
        keep.mkdir(parents=True, exist_ok=True)
        file = keep.resolve() / f"{kind}-{number}.case"
        self.run(self.arguments(kind, "--write", str(number), str(file)), 60)
        alone = False
        for _ in range(3):  # what reads beyond its memory does not die each time
            alone = alone or self.replay(file, "--cpu")[0] not in (0, 3)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        what = f"{name} {'(a hang)' if code == -signal.SIGALRM else ''}: {errors.strip()[-3000:]}"
        again = " ".join([f"CUDAEP_SIM_MEMORY_BYTES={DEVICE_BYTES}", *self.command, "replay", str(file)])
        return Failure(kind, number, what, alone, again, file)


def campaign(program: Program, kinds: tuple[str, ...], seconds: float, first: int, keep: Path) -> Result:
    """Fuzzes each kind for its share of the time."""
    result = Result()
    for kind in kinds:
        number, end = first, time.monotonic() + seconds / len(kinds)
        while (left := end - time.monotonic()) > 0:
            number = program.fuzz(kind, number, result, keep, seconds=left)
    return result


def main() -> None:
    """Exit code 1 when a case failed for which the host alone is not to blame."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="what to fuzz; both without it")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000, help="number of the first case")
    parser.add_argument("--host", default=onnxruntime.__version__, help="version of ONNX Runtime")
    parser.add_argument("--library", type=Path, default=ROOT / "build/sim/lib/libort_cuda_ep_sim.so")
    parser.add_argument("--keep", type=Path, default=ROOT / "build/fuzz", help="where failing cases go")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tools"))
    from tests.session.programs import shared_library

    with tempfile.TemporaryDirectory() as folder:
        program = Program(shared_library(args.host), args.library, Path(folder))
        print(f"first case {args.first}, {args.seconds:.0f} s", flush=True)
        result = campaign(program, tuple(args.kinds) or KINDS, args.seconds, args.first, args.keep)
    for failure in result.failures:
        print(failure)
    print(json.dumps({**result.counts, "failures": len(result.failures), "ours": len(result.ours)}))
    sys.exit(1 if result.ours else 0)


if __name__ == "__main__":
    main()
