"""The compile budget: seconds per file, number of kernels, library size. `compile_budget.py PRESET [BUILD_FOLDER]`.

Seconds come from ninja's log; kernels are counted in the library by the toolkit's cuobjdump where that is installed.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tree import ROOT, finish

BUDGET = Path(__file__).with_suffix(".toml")


def compile_seconds(log: str) -> dict[str, float]:
    """Seconds of the newest build of each object file, from the text of a .ninja_log."""
    seconds = {}
    for line in log.splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[3].endswith(".o"):
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1e3
    return seconds


def count_kernels(library: Path) -> int | None:
    """Kernels in the first architecture's code of a CUDA library; None without cuobjdump."""
    tool = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    if tool is None:
        return None
    text = subprocess.run([tool, "-res-usage", str(library)], check=True, capture_output=True, text=True).stdout
    return len({line.strip() for line in text.splitlines() if line.strip().startswith("Function ")})


def check(seconds: dict[str, float], kernels: int | None, size_mib: float, budget: dict[str, Any]) -> list[str]:
    """What is above its limit."""
    limit = budget["seconds_per_file"]
    problems = [f"{name} took {took:.1f} s, the limit is {limit}" for name, took in seconds.items() if took > limit]
    if kernels is not None and kernels > budget.get("kernels", kernels):
        problems.append(f"{kernels} kernels, the limit is {budget['kernels']}")
    if size_mib > budget["library_mib"]:
        problems.append(f"the library is {size_mib:.1f} MiB, the limit is {budget['library_mib']}")
    return problems


def main() -> None:
    """Checks one build folder against its preset's budget."""
    preset = sys.argv[1]
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build" / preset
    budget = tomllib.loads(BUDGET.read_text())[preset]
    log, library = folder / ".ninja_log", folder / budget["library"]
    if not log.is_file() or not library.is_file():
        finish("compile_budget", [f"{folder} holds no finished build"])
    seconds = compile_seconds(log.read_text())
    kernels = count_kernels(library) if "kernels" in budget else None
    size_mib = library.stat().st_size / 2**20
    slowest = sorted(seconds, key=lambda name: seconds[name], reverse=True)[:3]
    summary = f"{len(seconds)} files, {sum(seconds.values()):.0f} s, {kernels} kernels, {size_mib:.1f} MiB; slowest: "
    summary += ", ".join(f"{Path(name).name} {seconds[name]:.1f} s" for name in slowest)
    finish("compile_budget", check(seconds, kernels, size_mib, budget), summary)


if __name__ == "__main__":
    main()
