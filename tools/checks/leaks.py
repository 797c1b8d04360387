"""No file may name a place of the machine it was written on: a home or work folder, a package mirror or registry."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from tree import ROOT, finish, repository_files

_FOLDERS = re.compile(r"(?<![\w.$}/~*-])/(home|Users|root|work|mnt|workspace)/[\w.-]+")
_REGISTRIES = re.compile(
    r"\b(deb\.debian\.org|(archive|security)\.ubuntu\.com|snapshot\.debian\.org|(test\.)?pypi\.org"
    r"|files\.pythonhosted\.org|(?<=://)[\w.-]+\.(internal|corp|local)\b|[\w.-]*(artifactory|nexus|devpi)[\w-]*\.[\w.-]+)"
)


def local_names(root: Path) -> set[str]:
    """Names only this machine knows: where the repository lies, and the hosts of configured package indexes."""
    urls = [os.environ.get(key, "") for key in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL")]
    hosts = {urlsplit(url).hostname or "" for text in urls for url in text.split()}
    return {name for name in {str(root), *hosts} if len(name) > 4}


def check_text(text: str, local: set[str]) -> list[str]:
    """`line: what` for each leak in `text`."""
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        found = [match[0] for pattern in (_FOLDERS, _REGISTRIES) for match in pattern.finditer(line)]
        found += [name for name in local if name in line and not any(name in other for other in found)]
        problems += [f"{number}: names {name}" for name in found]
    return problems


def check_files(files: list[Path], local: set[str]) -> list[str]:
    """Leaks in all text files of `files`."""
    problems = []
    for path in files:
        content = path.read_bytes()
        if b"\0" not in content[:4096]:
            problems += [f"{path}:{problem}" for problem in check_text(content.decode(errors="replace"), local)]
    return problems


if __name__ == "__main__":
    finish("leaks", check_files(repository_files(ROOT), local_names(ROOT)))
