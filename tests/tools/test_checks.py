"""Every check refuses what it is there to refuse, and accepts the rest."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

CHECKS = Path(__file__).resolve().parents[2] / "tools" / "checks"
sys.path.insert(0, str(CHECKS))

import compile_budget  # noqa: E402
import file_size  # noqa: E402
import layers  # noqa: E402
import leaks  # noqa: E402
import release  # noqa: E402
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


GOOD = "".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(symbols.EXPORTS))


def test_symbols_accepts_the_three_exports(tmp_path: Path) -> None:
    assert symbols.check(build_library(tmp_path, GOOD)) == []


def test_symbols_refuses_a_fourth_export(tmp_path: Path) -> None:
    found = symbols.check(build_library(tmp_path, GOOD + "int helper(void) { return 0; }\n"))
    assert found == ["library.so exports helper"]


def test_symbols_refuses_a_missing_export(tmp_path: Path) -> None:
    found = symbols.check(build_library(tmp_path, GOOD.replace("ReleaseEpFactory", "CreateEpFactoriesToo")))
    assert found[0] == "library.so does not export ReleaseEpFactory"


def test_symbols_refuses_another_needed_library(tmp_path: Path) -> None:
    other = build_library(tmp_path / "other", "int other(void) { return 0; }\n", "-Wl,-soname,libcudart.so.13")
    source = "int other(void);\n" + GOOD.replace("return 0", "return other()")
    found = symbols.check(build_library(tmp_path, source, str(other)))
    assert found == ["library.so needs libcudart.so.13 at load time"]


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("GLIBC_2.34", True),
        ("GLIBC_2.35", False),
        ("GLIBC_2.4", True),
        ("GLIBC_3", False),
        ("GLIBCXX_3.4.29", True),
        ("GLIBCXX_3.4.30", False),
        ("CXXABI_1.3.14", False),
        ("OTHER_9.9", True),
    ],
)
def test_symbols_refuses_a_runtime_that_is_too_new(tmp_path: Path, version: str, fits: bool) -> None:
    script = write(tmp_path, "versions.map", f"{version} {{ global: future; local: *; }};\n")
    other = build_library(
        tmp_path / "other",
        "int future(void) { return 0; }\n",
        f"-Wl,-soname,libm.so.9,--version-script={script}",
    )
    source = "int future(void);\n" + GOOD.replace("return 0", "return future()")
    found = symbols.check(build_library(tmp_path, source, str(other)))
    assert found == ([] if fits else [f"library.so needs future@{version}, newer than manylinux_2_34"])


def test_symbols_refuses_size_and_absence(tmp_path: Path) -> None:
    assert "the limit is 0.001" in symbols.check(build_library(tmp_path, GOOD), max_mib=0.001)[0]
    assert "does not exist" in symbols.check(tmp_path / "none.so")[0]


OBJECTS = "src/kernels/CMakeFiles/cudaep_kernels.dir/"
BUDGET = {
    "one_file": 10,
    "all_files": 20,
    "all_kernels": 12,
    "other_kernels": 3,
    "device_code_bytes": 1000,
    "other_file_bytes": 100,
    "files": {"src/kernels/reduce/sum.cu": 500},
    "kernels": {"RowKernel": 8},
}


def test_compile_seconds_are_those_of_the_newest_compilation() -> None:
    log = (
        f"9000 {OBJECTS}reduce/sum.cu.o\n2500 {OBJECTS}reduce/sum.cu.o\n"
        "700 tests/unit/abi/CMakeFiles/test_abi.dir/__/__/__/src/abi/host.cc.o\n"
        "650 src/abi/CMakeFiles/cudaep_abi.dir/host.cc.o\n"
        "77 -\nnot a line\n"
    )
    assert compile_budget.compile_seconds(log) == {"src/kernels/reduce/sum.cu": 2.5, "src/abi/host.cc": 0.7}


@pytest.mark.parametrize(
    ("seconds", "scale", "refused"),
    [
        ({"src/a.cu": 9.9, "src/a.cc": 4.9}, 1.0, []),
        ({"src/a.cu": 10.1, "src/a.cc": 4.9}, 1.0, ["src/a.cu took 10.1 s"]),
        ({"src/a.cu": 19.0, "src/a.cc": 19.0}, 2.0, []),
        ({"src/a.cc": 7.0, "src/b.cc": 7.0, "src/c.cc": 7.0}, 1.0, ["all files took 21 s"]),
        ({"src/a.cc": 5.1}, 0.5, ["src/a.cc took 5.1 s of CPU, the limit here is 5.0"]),
        ({}, 1.0, ["no compilation"]),
    ],
)
def test_compile_budget_of_seconds(seconds: dict[str, float], scale: float, refused: list[str]) -> None:
    found = compile_budget.check_seconds(seconds, scale, BUDGET)
    assert len(found) == len(refused)
    assert all(part in text for part, text in zip(refused, found, strict=True))


@pytest.mark.parametrize(
    ("sizes", "refused"),
    [
        ({"src/kernels/reduce/sum.cu": 500, "src/a.cu": 100}, []),
        ({"src/kernels/reduce/sum.cu": 501}, ["sum.cu has 501 bytes of device code, the limit is 500"]),
        ({"src/a.cu": 101}, ["src/a.cu has 101 bytes of device code, the limit is 100"]),
        ({}, ["no object"]),
    ],
)
def test_compile_budget_of_files(sizes: dict[str, int], refused: list[str]) -> None:
    found = compile_budget.check_file_bytes(sizes, BUDGET)
    assert len(found) == len(refused)
    assert all(part in text for part, text in zip(refused, found, strict=True))


def test_compile_budget_finds_the_objects_of_kernel_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, f"{OBJECTS}reduce/sum.cu.o", "")
    write(tmp_path, f"{OBJECTS}reduce/gone.cu.o", "")
    write(tmp_path, "src/kernels/reduce/sum.cu", "")
    monkeypatch.setattr(compile_budget, "sections_of", lambda _: ".nv_fatbin  77  0\n")
    assert compile_budget.file_bytes(tmp_path, tmp_path) == {"src/kernels/reduce/sum.cu": 77}


@pytest.mark.parametrize(
    ("kernels", "code_bytes", "refused"),
    [
        ({"RowKernel": 8, "New": 3}, 1000, []),
        ({"RowKernel": 9}, 1000, ["RowKernel has 9 instances, the limit is 8"]),
        ({"New": 4}, 1000, ["New has 4 instances, the limit is 3"]),
        ({"RowKernel": 8, "A": 3, "B": 2}, 1000, ["13 kernels, the limit is 12"]),
        ({"RowKernel": 8}, 1001, ["1001 bytes of device code"]),
        ({}, 1000, ["no kernels"]),
    ],
)
def test_compile_budget_of_kernels(kernels: dict[str, int], code_bytes: int, refused: list[str]) -> None:
    found = compile_budget.check_kernels(Counter(kernels), code_bytes, BUDGET)
    assert len(found) == len(refused)
    assert all(part in text for part, text in zip(refused, found, strict=True))


def test_compile_budget_counts_kernels_by_name() -> None:
    row = "00004f36 b _ZZL101__device_stub__ZN6cudaep7kernels9RowKernelI{}EEvNS0_5InputIT_EEPS4_biE8__handle\n"
    plain = "00004f37 b _ZZL20__device_stub__Z5CountPiE8__handle\n"
    static = "00004f38 b _ZZL20__device_stub__ZN6cudaep7kernelsL9RowKernelEvE8__handle\n"
    noise = "00004f39 b _ZGVZL101__device_stub__ZN6cudaep9RowKernelEvE5__tmp\n00004f3a t _ZN6cudaep9RowKernelEv\n"
    text = row.format("f") + row.format("NS_4HalfE") + plain + static + noise
    assert compile_budget.kernel_names(text) == {"RowKernel": 3, "Count": 1}
    assert compile_budget.device_code_bytes("section  size  addr\n.nv_fatbin   1629648   3064024\n") == 1629648
    assert compile_budget.device_code_bytes("section  size  addr\n") == 0


def test_compile_budget_refuses_names_of_files_that_are_gone(tmp_path: Path) -> None:
    assert "sum.cu, which does not exist" in compile_budget.check_names(BUDGET, tmp_path)[0]
    write(tmp_path, "src/kernels/reduce/sum.cu", "")
    assert compile_budget.check_names(BUDGET, tmp_path) == []


def test_compile_budget_writes_what_it_then_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_budget, "BUDGET", tmp_path / "budget.toml")
    seconds, sizes = {"src/slow.cu": 20.0, "src/fast.cc": 1.0}, {"src/slow.cu": 100_000, "src/fast.cu": 9}
    kernels = Counter({"RowKernel": 100, "Few": 2})
    new = compile_budget.new_seconds({"library": "lib/x.so"}, seconds, 2.0)
    compile_budget.write({"cuda": compile_budget.new_budget(new, kernels, 5000, sizes)})
    budget = tomllib.loads((tmp_path / "budget.toml").read_text())["cuda"]
    assert budget["files"] == {"src/slow.cu": 120_000}
    assert budget["kernels"] == {"RowKernel": 120}
    assert (budget["one_file"], budget["all_files"]) == (60, 63)
    assert compile_budget.check_seconds(seconds, 1.0, budget) == []
    assert compile_budget.check_file_bytes(sizes, budget) == []
    assert compile_budget.check_kernels(kernels, 5000, budget) == []
    assert compile_budget.check_seconds({"src/slow.cu": 60.5}, 1.0, budget)
    assert compile_budget.check_file_bytes({"src/fast.cu": 60_001}, budget)
    assert compile_budget.check_kernels(kernels + Counter(RowKernel=21), 6100, budget)


@pytest.mark.parametrize(
    ("note", "result"),
    [
        ("", 0),
        ("ptxas info : a note", 0),
        ("Potential Performance Loss: wgmma.mma_async instructions are serialized", 1),
    ],
)
def test_products_of_warpgroups_that_wait_for_each_other_do_not_compile(note: str, result: int, tmp_path: Path) -> None:
    compiler, made = tmp_path / "compiler", tmp_path / "a.cu.o"
    compiler.write_text(f'#!/bin/sh\necho "{note}" >&2\ntouch "$3"\n')
    compiler.chmod(0o755)
    command = [str(CHECKS.parent / "hopper_compile.sh"), str(compiler), "a.cu", "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == result
    assert note in done.stderr
    assert made.exists() == (result == 0)


def test_compile_time_logs_what_compiled_alone(tmp_path: Path) -> None:
    launcher = CHECKS.parent / "compile_time.sh"
    log = tmp_path / "log"
    for source, works in (("int x;\n", True), ("no C\n", False)):
        code = write(tmp_path, "a.c", source)
        command = [str(launcher), str(log), "gcc", "-c", str(code), "-o", str(tmp_path / "a.c.o")]
        assert (subprocess.run(command, check=False, capture_output=True).returncode == 0) is works
    lines = log.read_text().splitlines()
    assert len(lines) == 1
    assert re.fullmatch(r"\d+ .*/a\.c\.o", lines[0])


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


@pytest.mark.parametrize(
    ("changelog", "problems"),
    [
        ("# Changelog\n\n## 1.2.3 - 2026-01-31\n- first\n", []),
        ("# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-31\n- first\n", []),
        ("# Changelog\n\n## Unreleased\n- more\n\n## 1.2.3 - 2026-01-31\n- first\n", ["unreleased changes"]),
        ("# Changelog\n\n## 1.2.2 - 2026-01-31\n- first\n", ["no section '## 1.2.3"]),
        ("# Changelog\n\n## 1.2.3\n- first\n", ["no section '## 1.2.3"]),
    ],
)
def test_release_wants_a_section_of_its_version(tmp_path: Path, changelog: str, problems: list[str]) -> None:
    write(tmp_path, "python/ort_cuda_ep/_version.py", '__version__ = "1.2.3"\n')
    write(tmp_path, "CHANGELOG.md", changelog)
    found = release.check(tmp_path)
    assert len(found) == len(problems)
    assert all(problem in text for problem, text in zip(problems, found, strict=True))
