"""Every check refuses what it is there to refuse, and accepts the rest."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = Path(__file__).resolve().parents[2] / "tools" / "checks"
sys.path.insert(0, str(CHECKS))

import compile_budget  # noqa: E402
import file_size  # noqa: E402
import layers  # noqa: E402
import leaks  # noqa: E402
import symbols  # noqa: E402


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        ("core/a.h", '#include "device/device.h"', "core may not include device"),
        ("kernels/a.cu", '#include "runtime/stream_context.h"', "kernels may not include runtime"),
        ("kernels/a.cu", "#  include <cuda_runtime.h>", "only the CUDA parts"),
        ("lib/blas.h", '#include "memory/allocator.h"', "lib may not include memory"),
        ("memory/a.h", '#include "lib/blas.h"', "memory may not include lib"),
        ("ops/a.cc", "#include <onnxruntime_c_api.h>", "only abi"),
        ("graph/a.cc", '#include "abi/ep.h"', "graph may not include abi"),
        ("lib/sim/a.cc", "#include <cublasLt.h>", "only lib's CUDA parts"),
        ("ops/a.cc", "#include <cudnn_graph.h>", "only lib's CUDA parts"),
        ("ops/a.cc", '#include "../core/status.h"', "write the path"),
        ("stray/a.cc", "", "no layer"),
    ],
)
def test_layers_refuses(tmp_path: Path, name: str, line: str, problem: str) -> None:
    write(tmp_path, name, f"// a file\n{line}\n")
    found = layers.check_tree(tmp_path)
    assert len(found) == 1
    assert problem in found[0]
    assert name in found[0]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("core/a.h", "#include <vector>"),
        ("core/float16.h", "#include <cuda_fp16.h>"),
        ("device/cuda/a.cc", "#include <cuda_runtime_api.h>"),
        ("device/launch.h", '#include "device/cuda/kernel_language.h"'),
        ("kernels/a.cu", '#include "device/launch.h"'),
        ("lib/cuda/blas.cc", "#include <cublasLt.h>"),
        ("ops/a.cc", '#include "kernels/a.h"'),
        ("abi/a.cc", "#include <onnxruntime_ep_c_api.h>"),
        ("abi/a.cc", '#include "core/status.h"'),
    ],
)
def test_layers_accepts(tmp_path: Path, name: str, line: str) -> None:
    write(tmp_path, name, line + "\n")
    assert layers.check_tree(tmp_path) == []


def test_layers_refuses_an_empty_tree(tmp_path: Path) -> None:
    assert layers.check_tree(tmp_path)


def test_file_size(tmp_path: Path) -> None:
    files = [write(tmp_path, f"{lines}.cc", "x\n" * lines) for lines in (400, 401, 801)]
    warnings, failures = file_size.check_files(files)
    assert [Path(text.split(":")[0]).name for text in warnings] == ["401.cc"]
    assert [Path(text.split(":")[0]).name for text in failures] == ["801.cc"]


def build_library(folder: Path, source: str, *flags: str) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    code = write(folder, "library.c", source)
    library = folder / "library.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, code, *flags], check=True)
    return library


GOOD = "int CreateEpFactories(void) { return 0; }\nint ReleaseEpFactory(void) { return 0; }\n"


def test_symbols_accepts_the_two_exports(tmp_path: Path) -> None:
    assert symbols.check(build_library(tmp_path, GOOD)) == []


def test_symbols_refuses_a_third_export(tmp_path: Path) -> None:
    found = symbols.check(build_library(tmp_path, GOOD + "int helper(void) { return 0; }\n"))
    assert found == ["library.so exports helper"]


def test_symbols_refuses_a_missing_export(tmp_path: Path) -> None:
    found = symbols.check(build_library(tmp_path, "int CreateEpFactories(void) { return 0; }\n"))
    assert found == ["library.so does not export ReleaseEpFactory"]


def test_symbols_refuses_another_needed_library(tmp_path: Path) -> None:
    other = build_library(tmp_path / "other", "int other(void) { return 0; }\n", "-Wl,-soname,libcudart.so.13")
    source = (
        "int other(void);\nint CreateEpFactories(void) { return other(); }\nint ReleaseEpFactory(void) { return 0; }\n"
    )
    found = symbols.check(build_library(tmp_path, source, str(other)))
    assert found == ["library.so needs libcudart.so.13 at load time"]


def test_symbols_refuses_size_and_absence(tmp_path: Path) -> None:
    assert "the limit is 0.001" in symbols.check(build_library(tmp_path, GOOD), max_mib=0.001)[0]
    assert "does not exist" in symbols.check(tmp_path / "none.so")[0]


def test_compile_budget() -> None:
    log = "# ninja log v5\n0\t2500\t7\tsrc/a.cu.o\tff\n0\t99000\t7\tlib/all.so\tff\n0\t9000\t7\tsrc/b.cc.o\tff\n"
    seconds = compile_budget.compile_seconds(log)
    assert seconds == {"src/a.cu.o": 2.5, "src/b.cc.o": 9.0}
    budget = {"seconds_per_file": 10, "kernels": 5, "library_mib": 1}
    assert compile_budget.check(seconds, 5, 1.0, budget) == []
    assert len(compile_budget.check(seconds, 6, 1.5, {**budget, "seconds_per_file": 5})) == 3


# Written in two halves each, so that this file passes the check it tests.
@pytest.mark.parametrize(
    "text", ["/ho" + "me/someone/x", "cd /r" + "oot/x", '"/wo' + 'rk/main"', "deb.deb" + "ian.org"]
)
def test_leaks_refuses(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "a.txt", f"first line\nsee {text}\n")
    found = leaks.check_files([path], set())
    assert len(found) == 1
    assert "a.txt:2:" in found[0]


def test_leaks_refuses_local_names(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "index at mirror.example\n")
    assert leaks.check_files([path], {"mirror.example"})


def test_leaks_accepts(tmp_path: Path) -> None:
    folders = "|usr|local|cuda $HOME|work|x ${root}|root|a ..|home|b src|work|a".replace("|", "/").split()
    text = "\n".join([*folders, "com.ms.internal.nhwc", ""])
    assert leaks.check_files([write(tmp_path, "a.txt", text)], {"mirror.example"}) == []
