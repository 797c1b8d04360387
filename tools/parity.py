"""What another provider's kernels offer that ours do not: `parity.py [--provider NAME [--library FILE]] [--json FILE]`.

By default the other side is the table of upstream's CUDA provider, tests/conformance/upstream_kernels.csv. With
--provider it is a provider of the installed host: one that the host was built with, or, with --library, a plug-in.
Operators, versions and types are compared, one line for each operator that lacks some. Exit code 0: this is a report.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "conformance" / "upstream_kernels.csv"
sys.path.insert(0, str(ROOT))

from tests.op.harness import driver, schemas  # noqa: E402
from tests.op.harness.driver import Row  # noqa: E402
from tests.op.harness.dtypes import name_of_type  # noqa: E402

NEWEST = 1 << 30


@dataclass(frozen=True)
class Kernel:
    """One kernel of the other side: a range of schema versions, and types by constraint."""

    domain: str
    op: str
    since: int
    until: int
    types: dict[str, frozenset[str]]


def from_table(path: Path) -> list[Kernel]:
    """The kernels of a table in comma-separated values: domain, op, since, until, types as `T=float|double;T1=bool`."""
    with path.open(newline="") as file:
        return [
            Kernel(
                "" if row["domain"] == "ai.onnx" else row["domain"],
                row["op"],
                int(row["since"]),
                int(row["until"] or NEWEST),
                {
                    name: frozenset(filter(None, (name_of_type(f"tensor({text})") for text in types.split("|"))))
                    for name, _, types in (part.partition("=") for part in row["types"].split(";") if part)
                },
            )
            for row in csv.DictReader(file)
        ]


def from_host(provider: str, library: str | None) -> list[Kernel]:
    """The kernels that the installed host knows of a provider. What it cannot load is its own error."""
    from onnxruntime.capi import onnxruntime_pybind11_state as host

    found: Iterable[Any]
    if library:
        host.register_execution_provider_library(provider, library)
        found = host.get_registered_ep_kernel_defs(provider)
    else:
        found = [kernel for kernel in host.get_all_opkernel_def() if kernel.provider == provider]
    return [
        Kernel(
            kernel.domain,
            kernel.op_name,
            kernel.version_range[0],
            kernel.version_range[1],
            {
                name: frozenset(filter(None, map(name_of_type, types)))
                for name, types in kernel.type_constraints.items()
            },
        )
        for kernel in found
    ]


def lacking(theirs: list[Kernel], rows: list[Row]) -> dict[str, list[str]]:
    """What ours lack, by operator: versions without a row, and types that a row of the version does not take."""
    ours: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        ours[row.domain, row.op].append(row)
    found: dict[str, list[str]] = defaultdict(list)
    for kernel in theirs:
        name = f"{kernel.domain or 'ai.onnx'}.{kernel.op}"
        mine = ours.get((kernel.domain, kernel.op))
        if mine is None:
            found[name] = ["no kernel"]
            continue
        known = [v for v in schemas.versions(kernel.domain, kernel.op) if kernel.since <= v <= kernel.until]
        for version in known or [kernel.since]:
            covering = next((row for row in mine if row.since <= version <= row.until), None)
            if covering is None:
                found[name].append(f"version {version}")
                continue
            for constraint, types in kernel.types.items():
                missing = types - covering.types.get(constraint, types)
                if missing:
                    found[name].append(f"version {version}, {constraint}: {', '.join(sorted(missing))}")
    return {name: list(dict.fromkeys(found[name])) for name in sorted(found)}


def main() -> None:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--provider", help="a provider of the installed host instead of the table")
    parser.add_argument("--library", help="the plug-in that has it")
    parser.add_argument("--json", type=Path, help="where the result goes too")
    arguments = parser.parse_args()
    theirs = from_host(arguments.provider, arguments.library) if arguments.provider else from_table(TABLE)
    if not theirs:
        sys.exit(f"parity: the host knows no kernels of {arguments.provider}")
    found = lacking(theirs, list(driver.load().rows))
    operators = len({(kernel.domain, kernel.op) for kernel in theirs})
    for name, reasons in found.items():
        print(f"{name}: {'; '.join(reasons)}")
    without = sum(reasons == ["no kernel"] for reasons in found.values())
    print(f"{operators} operators: {operators - len(found)} whole, {len(found) - without} in part, {without} missing")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
