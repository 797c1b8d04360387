"""Host matrix: one built library, the session suites on every supported ONNX Runtime, a table at the end.

    python tools/matrix.py [--library PATH] [--json PATH] [VERSION...]

A host that cannot be had, a suite that ends early and a host on which nothing ran are failures. Exit code 1 then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import hosts
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

DEFAULT_LIBRARY = hosts.ROOT / "build" / "sim" / "lib" / "libort_cuda_ep_sim.so"
TIMEOUT_S = 600
EXIT = "exit"  # the check that every suite has: it ran to its end and its process left with code 0


@dataclass(frozen=True)
class Suite:
    """A module that prints a JSON line for each check, and what its process needs in the environment.

    `library`: a file beside the plug-in that stands in for it; empty for the plug-in itself. `simulated`: that file is
    made for the simulated device alone; on a GPU the plug-in itself runs, and checks that need the file are skipped.
    `hooks`: it asks for what the host calls and offers, which changed between hosts; without, for what becomes of a
    graph or a value, and CI runs it on the oldest and the newest host alone. `rewrites`: for what passes make of a
    graph that they have from any host; CI runs it on the newest alone (region_fusion_suite is one for the oldest too).
    """

    module: str
    environment: dict[str, str] = field(default_factory=dict, hash=False)
    library: str = ""
    simulated: bool = False
    hooks: bool = True
    rewrites: bool = False


SUITES = (
    Suite("tests.session.suite"),
    Suite("tests.session.memory_suite"),
    Suite("tests.session.control_flow_suite"),
    Suite("tests.session.control_flow_cost_suite", library="libsession_probe.so", simulated=True),
    Suite("tests.session.prepack_suite"),
    Suite("tests.session.fusion_suite", hooks=False),
    Suite("tests.session.budget_suite", {"CUDAEP_SIM_DEVICES": "3"}),
    Suite("tests.session.budget_layout_suite"),
    Suite("tests.session.layout_suite"),
    Suite("tests.session.region_suite", hooks=False),
    Suite("tests.session.region_memory_suite"),
    Suite("tests.session.region_runs_suite"),
    Suite("tests.session.region_fusion_suite", hooks=False),
    Suite("tests.session.region_batch_norm_suite", hooks=False, rewrites=True),
    Suite("tests.session.region_parts_suite", hooks=False, rewrites=True),
    Suite(
        "tests.session.region_norm_products_suite",
        library="libsession_probe.so",
        simulated=True,
        hooks=False,
        rewrites=True,
    ),
    Suite("tests.session.region_precision_suite", hooks=False, rewrites=True),
    Suite("tests.session.region_segments_suite", hooks=False),
    Suite("tests.session.region_attention_suite", hooks=False, rewrites=True),
    Suite("tests.session.region_spellings_suite", hooks=False, rewrites=True),
    Suite("tests.session.region_views_suite", hooks=False, rewrites=True),
    Suite("tests.session.region_windows_suite", hooks=False, rewrites=True),
    Suite("tests.session.decoder_fusion_suite", hooks=False, rewrites=True),
    Suite("tests.session.int4_decoder_suite", hooks=False, rewrites=True),
    Suite("tests.session.region_quantized_suite", hooks=False, rewrites=True),
    Suite("tests.session.region_masked_softmax_suite", hooks=False, rewrites=True),
    Suite("tests.session.region_codes_suite", hooks=False, rewrites=True),
    Suite("tests.session.profile_suite", library="libsession_probe.so", simulated=True),
    Suite("tests.session.collective_suite", {"CUDAEP_SIM_DEVICES": "4"}, hooks=False),
    Suite("tests.session.device_suite", {"CUDAEP_SIM_DEVICES": "3"}),
    Suite("tests.session.drop_in_suite", {"CUDAEP_SIM_DEVICES": "3"}),
    Suite("tests.session.drop_in_programs_suite"),
    Suite("tests.session.current_device", {"CUDAEP_SIM_DEVICES": "3"}, "libdevice_watch.so"),
    *(
        # Host code stands for kernels of the application in these checks.
        Suite(
            f"tests.session.{name}",
            {"CUDAEP_SIM_DEVICES": "2", "CUDAEP_SIM_OPEN_MEMORY": "1"},
            "libsession_probe.so",
            simulated=True,
        )
        for name in (
            *("stream_suite", "stream_options_suite", "graph_suite", "graph_refusal_suite"),
            *("region_graph_suite", "beside_suite", "beside_texts_suite"),
        )
    ),
)


@dataclass(frozen=True)
class Result:
    """One check on one host: passed, failed or skipped, and the failure or the reason."""

    suite: str
    check: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True)
class ChildRun:
    """What a child process said that prints a JSON line for each check, and all of its output."""

    results: list[Result]
    output: str = ""


def run_child(name: str, command: list[str], environment: dict[str, str], timeout_s: float) -> ChildRun:
    """Runs a suite's process.

    The last result is that of the process itself: a suite that ends early has failed there, with its error output.
    """
    try:
        child = subprocess.run(
            command, cwd=hosts.ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return ChildRun([Result(name, EXIT, "failed", f"still running after {timeout_s} s")])
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith('{"check"')]
    results = [_result_of(name, line) for line in lines]
    problem = "" if child.returncode == 0 else f"exit code {child.returncode}\n{child.stderr[-2000:]}"
    if not problem and not results:
        problem = "no check ran"
    return ChildRun([*results, Result(name, EXIT, "failed" if problem else "passed", problem)], child.stdout)


def _result_of(name: str, line: dict[str, str]) -> Result:
    if line["failure"]:
        return Result(name, line["check"], "failed", line["failure"])
    outcome = "skipped" if line["skipped"] else "passed"
    return Result(name, line["check"], outcome, line["skipped"])


def run_suite(suite: Suite, version: str, library: Path, checks: Iterable[str] = ()) -> list[Result]:
    """Runs `suite`, or these checks of it, in a child process on a host, which is installed if need be."""
    try:
        environment = {**hosts.ready_environment(version), **hosts.STRICT_MALLOC, **suite.environment}
    except subprocess.CalledProcessError as error:
        return [Result(suite.module, EXIT, "failed", f"onnxruntime {version} could not be installed: {error}")]
    is_itself = not suite.library or (suite.simulated and library.name == "libort_cuda_ep.so")
    path = library.resolve() if is_itself else library.resolve().with_name(suite.library)
    command = [sys.executable, "-m", suite.module, str(path), *checks]
    return run_child(suite.module, command, environment, TIMEOUT_S).results


@dataclass
class Row:
    """All results of one host."""

    version: str
    results: list[Result]
    seconds: float

    def count(self) -> Counter[str]:
        """How many passed, failed and were skipped."""
        return Counter(result.outcome for result in self.results)

    def failures(self) -> list[Result]:
        """The failed ones."""
        return [result for result in self.results if result.outcome == "failed"]


def run_host(version: str, library: Path) -> Row:
    """Runs all suites on one host."""
    start = time.monotonic()
    results = [result for suite in SUITES for result in run_suite(suite, version, library)]
    return Row(version, results, time.monotonic() - start)


def table_of(rows: list[Row]) -> Table:
    """What is printed: one line a host."""
    table = Table("ONNX Runtime", title="Host matrix")
    for heading in ("passed", "failed", "skipped", "seconds"):
        table.add_column(heading, justify="right")
    for row in rows:
        count = row.count()
        failed = f"[red]{count['failed']}[/red]" if count["failed"] else "0"
        table.add_row(row.version, str(count["passed"]), failed, str(count["skipped"]), f"{row.seconds:.1f}")
    return table


def report_of(rows: list[Row], library: Path) -> dict[str, object]:
    """The same as one JSON object, with every check."""
    entries = {
        row.version: {
            **{outcome: row.count()[outcome] for outcome in ("passed", "failed", "skipped")},
            "seconds": round(row.seconds, 1),
            "checks": [asdict(result) for result in row.results],
        }
        for row in rows
    }
    return {"library": str(library), "ok": not any(row.failures() for row in rows), "hosts": entries}


def main() -> None:
    """Runs the matrix of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="by default all supported ones")
    parser.add_argument("--library", type=Path, default=DEFAULT_LIBRARY, help="the plug-in, by default build/sim's")
    parser.add_argument("--json", type=Path, help="also write every check to this file")
    parser.add_argument("--jobs", type=int, default=1, help="hosts at a time")
    options = parser.parse_args()
    if not options.library.is_file():
        parser.error(f"{options.library} does not exist: make sim")
    versions = options.versions or list(hosts.SUPPORTED)
    console = Console()
    with Progress(console=console, transient=True) as progress, ThreadPoolExecutor(options.jobs) as pool:
        rows = []
        for row in progress.track(
            pool.map(lambda version: run_host(version, options.library), versions),
            total=len(versions),
            description="hosts",
        ):
            rows.append(row)
    for row in rows:
        for result in row.failures():
            console.print(f"[red]{row.version}[/red] {result.suite} {result.check}")
            console.print(escape(result.detail), highlight=False)
    console.print(table_of(rows))
    if options.json:
        options.json.write_text(json.dumps(report_of(rows, options.library), indent=1) + "\n")
    sys.exit(any(row.failures() for row in rows))


if __name__ == "__main__":
    main()
