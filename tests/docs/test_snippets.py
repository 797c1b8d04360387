"""Snippets in the documentation are the product's own code, or compile against the host's headers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```cpp(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets() -> list[tuple[Path, str | None, str]]:
    """(page, source file or None, code) of every C++ snippet."""
    return [(page, match[1] or None, match[2]) for page in PAGES for match in FENCE.finditer(page.read_text())]


def test_there_are_snippets() -> None:
    assert {bool(source) for _, source, _ in snippets()} == {True, False}


@pytest.mark.parametrize(("page", "source", "code"), snippets())
def test_snippet(page: Path, source: str | None, code: str, tmp_path: Path) -> None:
    if source is not None:
        assert code in (ROOT / source).read_text(), f"{page.name} quotes code that {source} no longer has"
        return
    program = tmp_path / "snippet.cc"
    program.write_text(f"#include <onnxruntime_cxx_api.h>\n#include <string_view>\nint main() {{\n{code}}}\n")
    headers = ROOT / "build" / "deps" / "onnxruntime-headers"
    command = ["g++", "-std=c++20", "-fsyntax-only", "-isystem", str(headers), str(program)]
    subprocess.run(command, check=True, capture_output=True)
