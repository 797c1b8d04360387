"""The benchmark's command line: `python -m bench run | compare | chart | list` (docs/benchmarks.md)."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from ort_cuda_ep import get_library_path, gpu_driver_present
from rich.console import Console
from rich.table import Table

from bench import cases, chart, exports, int4_decoder, operators, report, subjects
from bench.compare import compare
from bench.driver import Driver, temporary_folder

BEYOND_THE_LIMIT, UNUSABLE = 1, 2


def table(tiny: bool) -> tuple[cases.Case, ...]:
    """Every case."""
    full = int4_decoder.table(tiny) if tiny else (*cases.full_size(), *int4_decoder.table(tiny))
    return (*cases.table(tiny), *full, *cases.sweep(tiny), *operators.table(tiny), *exports.table())


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Measures the selected cases and writes the report."""
    library = str(Path(arguments.library or get_library_path()).resolve())
    tiny = arguments.tiny or not gpu_driver_present()
    chosen = [cases.from_file(text) for text in arguments.model] or cases.select(table(tiny), arguments.cases)
    who = subjects.builds(library, "ours", arguments.settings)
    if arguments.baseline:
        who += subjects.builds(str(Path(arguments.baseline).resolve()), "baseline", arguments.settings)
    if arguments.upstream:
        who += subjects.upstream(str(Path(arguments.upstream).resolve()), arguments.settings)
    if arguments.torch and not tiny:
        who += subjects.torch(arguments.torch)
    loop = Path(arguments.launch_loop or Path(library).parent / "liblaunch_loop.so")
    if loop.is_file():
        who.append(subjects.Subject("bare", "bare", str(loop.resolve()), only="host"))
    who.append(subjects.Subject("cpu", "cpu", only=arguments.cpu))
    who = [subject for subject in who if any(subject.takes(case.name, case.group) for case in chosen)]
    with temporary_folder() as folder:
        driver = Driver(who, Path(folder), tiny, arguments.repeats, console.print)
        result = report.new(who, driver.hello(), tiny)
        begin = time.monotonic()
        for number, case in enumerate(chosen):
            if case.bytes and not result["copy"] and not tiny:
                result["copy"] = driver.measure_copy()
            result["cases"].append(report.entry(case, driver.measure(case)))
            report.show(result, result["cases"][-1], console)
            if arguments.timeline and case.group == "model":
                report.show_timeline(result["cases"][-1], console)
            if arguments.json:
                arguments.json.write_text(json.dumps(result) + "\n")
            if arguments.seconds and time.monotonic() - begin > arguments.seconds and number + 1 < len(chosen):
                console.print(f"out of time: {len(chosen) - number - 1} cases were not measured")
                break
        driver.end()
    ours = [entry["results"].get("ours", {}) for entry in result["cases"]]
    return BEYOND_THE_LIMIT if any("error" in found for found in ours) else 0


def compare_reports(arguments: argparse.Namespace, console: Console) -> int:
    """Prints the verdicts; the exit code says whether one fails."""
    old = json.loads(arguments.reports[0].read_text())
    new = json.loads(arguments.reports[1].read_text()) if len(arguments.reports) > 1 else old
    names = (arguments.old or ("ours" if new is not old else "baseline"), arguments.new)
    verdicts = compare(old, new, names, arguments.limit / 100)
    table = Table(title=f"{names[1]} over {names[0]}, 95% intervals", title_justify="left", box=None, pad_edge=False)
    for name in ("case", "time", "ratio", "interval", "verdict"):
        table.add_column(name, justify="left" if name in ("case", "verdict") else "right")
    for v in verdicts:
        interval = f"{v.low:.3f}..{v.high:.3f}" if v.metric else ""
        word = f"[red]{v.word}, beyond {arguments.limit:g}%[/red]" if v.fails and v.metric else f"{v.word} {v.note}"
        table.add_row(v.case, v.metric.removesuffix("_us"), f"{v.ratio:.3f}" if v.metric else "", interval, word)
    console.print(table)
    failed = sum(v.fails for v in verdicts)
    console.print(f"{failed} of {len(verdicts)} comparisons fail")
    return BEYOND_THE_LIMIT if failed else 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    top = argparse.ArgumentParser(prog="bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("run", help="measure; on a machine without a GPU the simulated device at tiny sizes")
    measure.add_argument("--library", help="the build under test; by default the package's choice for this machine")
    measure.add_argument("--baseline", help="another build of ours to measure in turn with it")
    measure.add_argument("--upstream", help="folder of an installed onnxruntime-gpu (pip install --target)")
    measure.add_argument("--settings", default="all", help="of the providers, by name; all of them by default")
    measure.add_argument("--torch", default="", help="modes of torch itself (all, eager, ...), where it is installed")
    measure.add_argument("--cases", default="host,model,product,memory", help="names or groups; `list` shows them")
    measure.add_argument("--model", action="append", default=[], help="MODEL.onnx@DIM=N,... in place of the cases")
    measure.add_argument("--cpu", default="host", help="cases that the CPU provider is measured on too")
    measure.add_argument("--launch-loop", help="liblaunch_loop.so; by default the one beside the library")
    measure.add_argument("--repeats", type=int, default=9)
    measure.add_argument("--seconds", type=float, help="begin no further case after so long")
    measure.add_argument("--tiny", action="store_true", help="tiny sizes on a GPU too")
    measure.add_argument("--timeline", action="store_true", help="print the kernels of models")
    measure.add_argument("--json", type=Path, help="the report; written after each case")
    judge = commands.add_parser("compare", help="say what became faster or slower; exit code 1 beyond the limit")
    judge.add_argument("reports", type=Path, nargs="+", help="OLD.json NEW.json, or one report with two subjects")
    judge.add_argument("--old", help="subject of the old side: ours in two reports, baseline in one")
    judge.add_argument("--new", default="ours")
    judge.add_argument("--limit", type=float, default=3.0, help="percent that something may be slower")
    drawing = commands.add_parser("chart", help="a page with charts: cost against batch, tokens or threads")
    drawing.add_argument("reports", type=Path, nargs="+", help="of `run`, or of bench/throughput.py")
    drawing.add_argument("-o", "--output", type=Path, required=True, help="the HTML file, complete in itself")
    listing = commands.add_parser("list", help="the cases")
    listing.add_argument("--tiny", action="store_true")
    return top


def main(words: list[str] | None = None) -> int:
    """Exit codes: 0 as wanted, 1 something is too slow or ours failed a case, 2 the request cannot be served."""
    arguments = parser().parse_args(words)
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    try:
        if arguments.command == "run":
            return run(arguments, console)
        if arguments.command == "compare":
            return compare_reports(arguments, console)
        if arguments.command == "chart":
            arguments.output.write_text(chart.page([json.loads(path.read_text()) for path in arguments.reports]))
            return 0
        for case in table(arguments.tiny):
            console.print(case.name, case.group, " ".join(f"{key}={value}" for key, value in case.axes.items()))
    except (ValueError, FileNotFoundError, KeyError) as error:
        console.print(f"bench: {error}")
        return UNUSABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
