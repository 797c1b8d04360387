"""`.ci/run` and what it is made of can fail: caps, clang-tidy, architectures, the choice of cases."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "checks")]

import architectures  # noqa: E402
import one_case_each  # noqa: E402
import tidy  # noqa: E402


@pytest.fixture
def ci(tmp_path: Path) -> Path:
    """A copy of .ci/run whose set-up and lint stage sleeps and whose test stage fails."""
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "run"
    shutil.copy(ROOT / ".ci" / "run", script)
    (tmp_path / "Makefile").write_text("setup:\n\tsleep $(SLEEP)\nlint:\n\ntest:\n\tfalse\n")
    return script


def run_ci(script: Path, *stages: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MAKEFLAGS": "", "CI_CAP_PERCENT": "100", **settings}
    return subprocess.run([script, *stages], env=environment, capture_output=True, text=True, check=False)


def test_ci_prints_the_time_of_a_stage(ci: Path) -> None:
    done = run_ci(ci, "lint", SLEEP="0")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^== lint +\d+ s of +480$", done.stdout, re.MULTILINE)
    assert re.search(r"^== all +\d+ s$", done.stdout, re.MULTILINE)


def test_ci_ends_a_stage_above_its_cap(ci: Path) -> None:
    ci.write_text(re.sub(r'"lint \d+ ', '"lint 2 ', ci.read_text()))
    done = run_ci(ci, "lint", "tests", SLEEP="30", CI_CAP_PERCENT="1")
    assert done.returncode == 1
    assert re.search(r"^ci: stage lint took [1-6] s, its cap is 1 s$", done.stderr, re.MULTILINE)
    assert "== tests" not in done.stdout


def test_ci_says_when_it_takes_longer_than_it_should(ci: Path) -> None:
    assert "warning" not in run_ci(ci, "lint", SLEEP="0").stderr
    ci.write_text(ci.read_text().replace("SHOULD_TAKE=56", "SHOULD_TAKE=0"))
    done = run_ci(ci, "lint", SLEEP="1")
    assert done.returncode == 0
    assert "ci: warning: more than the 0 minutes" in done.stderr


def test_ci_fails_where_a_stage_fails(ci: Path) -> None:
    done = run_ci(ci, "tests")
    assert done.returncode == 1
    assert "ci: stage tests failed after" in done.stderr


def test_ci_refuses_a_stage_that_it_does_not_have(ci: Path) -> None:
    done = run_ci(ci, "test")
    assert done.returncode == 2
    assert "no stage test;" in done.stderr


def test_ci_stays_within_what_a_change_may_cost() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    minutes = [int(found) for found in re.findall(r'^  "\w+ (\d+) ', text, re.MULTILINE)]
    assert len(minutes) == len(re.findall(r"^stage_\w+\(\)", text, re.MULTILINE))
    assert "\nSHOULD_TAKE=56\n" in text
    assert max(minutes) <= 35


BAD = "#include <string>\n#include <utility>\nsize_t f(std::string a) {\n  std::string b = std::move(a);\n"
BAD += "  return a.size() + b.size();\n}\n"


def test_tidy_finds_what_its_checks_are_for(tmp_path: Path) -> None:
    shutil.copy(ROOT / ".clang-tidy", tmp_path)
    for name, text in (("bad.cc", BAD), ("good.cc", "int f() { return 1; }\n")):
        (tmp_path / name).write_text(text)
        command = f'{{"file": "{tmp_path / name}", "directory": "{tmp_path}", "command": "c++ -std=c++20 -c {name}"}}'
        (tmp_path / "compile_commands.json").write_text(f"[{command}]")
        found = tidy.check(str(tmp_path / name), tmp_path)[1]
        assert ("bugprone-use-after-move" in found) is (name == "bad.cc"), found


def test_tidy_takes_the_cpp_files_of_src_once() -> None:
    names = ["src/a.cc", "src/a.cc", "src/b.cu", "tests/c.cc"]
    commands = [{"file": str(ROOT / name), "command": "c++ -fno-gnu-unique -c x"} for name in names]
    assert tidy.sources(commands, []) == [str(ROOT / "src/a.cc")]
    assert tidy.sources(commands, ["b"]) == []
    assert tidy.for_clang(commands)[0]["command"] == "c++ -c x"


COMMAND = '/x/time.sh log /usr/bin/ccache /x/bin/nvcc -O3 "--generate-code=arch=compute_90,code=[sm_90]" -c a.cu -o a.o'


def test_architectures_are_the_ends_of_the_release() -> None:
    text = '{"configurePresets": [{"name": "cuda-release", "cacheVariables": {"CMAKE_CUDA_ARCHITECTURES": "%s"}}]}'
    assert architectures.ends_of_release(text % "90-real;75-real;100a-real;120") == ("75", "120")
    command = architectures.command_for(COMMAND, "75", "b.o")
    assert command == '/x/bin/nvcc -O3 "--generate-code=arch=compute_75,code=[sm_75]" -c a.cu -o b.o'
    with pytest.raises(ValueError, match="no architecture"):
        architectures.command_for("nvcc -c a.cu -o a.o", "75", "b.o")


def test_architectures_refuses_what_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "nvcc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *sm_75*bad.cu*) echo "no cp.async here"; exit 1;; esac\n')
    compiler.chmod(0o755)
    monkeypatch.setattr(architectures, "FILES", ("kernels/good.cu", "kernels/bad.cu", "kernels/gone.cu"))
    entries = [
        {
            "file": f"/x/kernels/{name}.cu",
            "directory": str(tmp_path),
            "command": f"{compiler} --generate-code=arch=compute_90,code=[sm_90] -c {name}.cu -o {name}.o",
        }
        for name in ("good", "bad")
    ]
    found = architectures.check(entries, ("75", "120"))
    assert found == ["no compile command makes kernels/gone.cu", "kernels/bad.cu for 75: no cp.async here\n"]


def test_one_case_each_takes_the_largest_of_each_group() -> None:
    add, half = ("", "Add", "float32"), ("", "Add", "half")
    assert one_case_each.choose([(add, 3), (half, 1), (add, 9), (add, 9), (half, 0)]) == [1, 2]
    assert [one_case_each.kind_of(name) for name in ("bfloat16", "uint8", "int64", "bool", "complex64")] == [
        "half",
        "integer",
        "integer",
        "bool",
        "complex64",
    ]
    assert one_case_each.elems_of([(2, 3), (), (0, 5)]) == 7
    assert one_case_each.elems_of([(1 << 16, 2)]) == 0
