"""A built library: what it needs at load time and of which age, what it exports, and how large it is.

`symbols.py LIBRARY [MAX_MIB]`. A library that needs no more than manylinux_2_34 has loads on every distribution since
2021 that has its C++ runtime.
"""

import re
import subprocess
import sys
from pathlib import Path

from tree import finish

EXPORTS = {"CreateEpFactories", "ReleaseEpFactory", "OrtCudaEpStatistics"}
NEEDED = re.compile(r"^(lib(c|m|stdc\+\+|gcc_s|dl|pthread|rt)\.so\.\d+|ld-linux.*\.so\.\d+)$")
MAX_MIB = 64.0
# The newest symbol versions that manylinux_2_34 allows.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}


def needed_libraries(library: Path) -> list[str]:
    """The NEEDED entries of the dynamic section."""
    text = subprocess.run(["readelf", "-dW", str(library)], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", text)


def too_new(library: Path) -> list[str]:
    """The undefined symbols that need a newer C or C++ runtime than NEWEST, as `name@VERSION`."""
    command = ["nm", "-D", "--undefined-only", "--format=posix", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = []
    for name, family, version in re.findall(r"^(\S+)@([A-Z]+)_([0-9.]+)\b", text, re.MULTILINE):
        newest = NEWEST.get(family)
        if newest is not None and tuple(map(int, version.split("."))) > newest:
            found.append(f"{name}@{family}_{version}")
    return sorted(found)


def exported_symbols(library: Path) -> list[str]:
    """The defined dynamic symbols, without their versions."""
    command = ["nm", "-D", "--defined-only", "--format=posix", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # An `A` is the name of a symbol version, not a symbol.
    rows = [line.split() for line in text.splitlines()]
    return [row[0].split("@")[0] for row in rows if len(row) > 1 and row[1] != "A"]


def check(library: Path, max_mib: float = MAX_MIB) -> list[str]:
    """Everything that is wrong with `library`."""
    if not library.is_file():
        return [f"{library} does not exist"]
    problems = [f"needs {name} at load time" for name in needed_libraries(library) if not NEEDED.match(name)]
    problems += [f"needs {name}, newer than manylinux_2_34" for name in too_new(library)]
    exports = set(exported_symbols(library))
    problems += [f"does not export {name}" for name in sorted(EXPORTS - exports)]
    problems += [f"exports {name}" for name in sorted(exports - EXPORTS)[:20]]
    size_mib = library.stat().st_size / 2**20
    if size_mib > max_mib:
        problems.append(f"is {size_mib:.1f} MiB, the limit is {max_mib:g}")
    return [f"{library.name} {problem}" for problem in problems]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    finish("symbols", check(path, float(sys.argv[2]) if len(sys.argv) > 2 else MAX_MIB))
