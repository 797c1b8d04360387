"""The CUDA graphs guide's table of options is the options table's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"""\{"([\w.]+)",\s+(?:\w+|"[^"]*"),\s+"([^"]*)",""")
GUIDE = (ROOT / "docs" / "guides" / "cuda-graphs.md").read_text()


def rows() -> list[tuple[str, str]]:
    """(name, default) of every graph option in the product's table."""
    return ROW.findall((ROOT / "src" / "runtime" / "graph_options.cc").read_text())


def test_the_table_was_found() -> None:
    assert len(rows()) == 3


@pytest.mark.parametrize(("name", "default"), rows())
def test_the_guide_has_the_option_with_its_default(name: str, default: str) -> None:
    line = next((line for line in GUIDE.splitlines() if line.startswith(f"| `{name}` |")), "")
    assert line, f"docs/guides/cuda-graphs.md has no row for {name}"
    assert line.split("|")[3].strip() == default


def test_the_guide_has_the_memory_of_a_node() -> None:
    header = (ROOT / "src" / "runtime" / "graph_capture.h").read_text()
    found = re.search(r"kBytesPerNode = size_t\{(\d+)\} << 10;", header)
    assert found and f"{found.group(1)} KiB a node" in GUIDE
