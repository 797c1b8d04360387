"""Runs that are profiled by themselves, several at once, on the newest host and the oldest that has the hook.

Python cannot ask for them; `profile_host` (tests/session/profile_host) can.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.session import models
from tests.session.programs import Program

THREADS, RUNS, NODES = 6, 8, 12


@pytest.fixture(params=["1.27.0", onnxruntime.__version__])
def program(request: pytest.FixtureRequest, test_library: str) -> Program:
    return Program("profile_host", request.param, test_library)


def save_model(folder: Path) -> Path:
    nodes = [
        helper.make_node("Relu", [f"v{i}"], ["y" if i == NODES - 1 else f"v{i + 1}"], name=f"relu{i}")
        for i in range(NODES)
    ]
    vector: tuple[int, list[int | str]] = (TensorProto.FLOAT, [4])
    path = folder / "model.onnx"
    path.write_bytes(models.model(nodes, {"v0": vector}, {"y": vector}))
    return path


@pytest.mark.parametrize("option", ["compiled_regions=0", "enable_cuda_graph=1"])
def test_each_run_has_its_own_nodes(program: Program, tmp_path: Path, option: str) -> None:
    (tmp_path / "profiles").mkdir()
    program.run(
        program.host, program.library, save_model(tmp_path), tmp_path / "profiles", str(THREADS), str(RUNS), option
    )
    files = sorted((tmp_path / "profiles").iterdir())
    assert len(files) == THREADS * RUNS // 2, files
    for file in files:
        if option == "enable_cuda_graph=1" and file.name.split("_")[1] != "0" and file.stat().st_size == 0:
            continue  # these hosts do not end the profile of a Run that is a replay; the first ones are captures
        kernels = [event["args"] for event in json.loads(file.read_text("utf-8")) if event["cat"] == "Kernel"]
        names = Counter(kernel["node_name"] for kernel in kernels if "node_name" in kernel)
        nodes = [f"relu{i}" for i in range(NODES)]
        if option == "enable_cuda_graph=1":  # one step of a region does all of them
            nodes = ["Elementwise of " + " + ".join(f"Relu node '{name}'" for name in nodes)]
        assert names == Counter(nodes), (file.name, names)
