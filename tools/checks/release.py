"""What a release needs beside a build that passes: a section of the changelog with its version and date."""

import re
import runpy
from pathlib import Path

from tree import ROOT, finish


def check(root: Path) -> list[str]:
    """Everything that is wrong with the tree at `root` as a release."""
    version = runpy.run_path(str(root / "python" / "ort_cuda_ep" / "_version.py"))["__version__"]
    text = (root / "CHANGELOG.md").read_text()
    problems = []
    if not re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", text, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no section '## {version} - YEAR-MONTH-DAY'")
    unreleased = re.search(r"^## Unreleased$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        problems.append("CHANGELOG.md has unreleased changes; they belong to a version")
    return problems


if __name__ == "__main__":
    finish("release", check(ROOT))
