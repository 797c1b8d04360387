"""The CMake package, and the applications of examples/cpp built against it."""

import subprocess
from pathlib import Path

from .programs import PROGRAMS, ROOT, model, run

BUILD = ROOT / "build" / "sim"


def test_examples_are_built_and_run(tmp_path: Path) -> None:
    subprocess.run([ROOT / "tools" / "build_examples.sh", "sim"], check=True, capture_output=True)
    path = str(model(tmp_path))
    for name, words in PROGRAMS.items():
        done = run(BUILD / "examples" / name, path)
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
    load = BUILD / "examples" / "load"
    assert "Simulated" in run(load, path).stdout
    for arguments, code, text in (
        ([], 2, "usage"),
        ([str(tmp_path / "absent.onnx")], 1, "absent.onnx"),
    ):
        done = run(load, *arguments)
        assert (done.returncode, text in done.stderr) == (code, True), done.stderr
    done = run(load, path, ORT_CUDA_EP_LIBRARY=str(tmp_path / "absent.so"))
    assert done.returncode == 1
    assert "absent.so" in done.stderr


def test_a_component_that_is_not_installed_is_named(tmp_path: Path) -> None:
    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path / "place"], check=True, capture_output=True)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(user NONE)\n"
        "find_package(ort_cuda_ep REQUIRED COMPONENTS sim)\n"
        "if(NOT ort_cuda_ep_VERSION)\n message(FATAL_ERROR none)\nendif()\n"
        "find_package(ort_cuda_ep REQUIRED COMPONENTS cuda)\n"
    )
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "out", f"-DCMAKE_PREFIX_PATH={tmp_path / 'place'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "there is no component 'cuda'" in done.stderr
    assert "component 'sim'" not in done.stderr
