"""The streams guide's table of options is the options table's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"""\{"([\w.]+)", (?:\w+|"[^"]*"), "([^"]*)",""")


def rows() -> list[tuple[str, str]]:
    """(name, default) of every stream option in the product's table."""
    return ROW.findall((ROOT / "src" / "runtime" / "stream_options.cc").read_text())


def test_the_table_was_found() -> None:
    assert len(rows()) == 5


@pytest.mark.parametrize(("name", "default"), rows())
def test_the_guide_has_the_option_with_its_default(name: str, default: str) -> None:
    guide = (ROOT / "docs" / "guides" / "streams.md").read_text()
    line = next((line for line in guide.splitlines() if line.startswith(f"| `{name}` |")), "")
    assert line, f"docs/guides/streams.md has no row for {name}"
    assert line.split("|")[3].strip() == default
