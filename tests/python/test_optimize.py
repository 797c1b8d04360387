"""`optimize`, and what helpers say where a graph with regions is to be saved, on the oldest and the newest host."""

import subprocess
import sys
from pathlib import Path

import command
import models
import onnx
import pytest


@pytest.fixture(params=command.VERSIONS)
def environment(request: pytest.FixtureRequest, test_library: str) -> dict[str, str]:
    return command.child_environment(test_library, request.param)


def _operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_the_hosts_fusions_are_saved(environment: dict[str, str], tmp_path: Path) -> None:
    model, out = models.save_fusable_model(tmp_path / "m.onnx"), tmp_path / "out.onnx"
    found = command.invoke(environment, "optimize", model, "-o", out, "--json")
    assert (found.code, found.json) == (0, {"ok": True, "nodes": 1, "files": [str(out)]}), found
    assert _operators(out) == ["QuickGelu"]
    assert command.invoke(environment, "optimize", model, "-o", out, "--level", "basic").code == 0
    assert _operators(out) == ["Sigmoid", "Mul"]
    ran = command.invoke(environment, "run", out, "--dim", "n=2", "--dim", "m=3", "--json")
    assert ran.code == 0 and ran.json["ok"], ran


def test_copies_are_not_saved(environment: dict[str, str], tmp_path: Path) -> None:
    """What a session of the saved model does is what it did with the model."""
    model, out = models.save_mixed_model(tmp_path / "m.onnx"), tmp_path / "out.onnx"
    assert command.invoke(environment, "optimize", model, "-o", out).code == 0
    assert not {"MemcpyToHost", "MemcpyFromHost"} & set(_operators(out))
    before, after = (command.invoke(environment, "explain", path, "--json").json for path in (model, out))
    for key in ("nodes", "copies"):
        assert after[key] == before[key]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["{folder}/m.onnx", "-o", "{folder}/out.onnx", "--option", "compiled_regions=1"],
            "leave compiled_regions out",
        ),
        (["{folder}/m.onnx", "-o", "{folder}/none/out.onnx"], "none is no folder"),
        (["{folder}/m.onnx", "-o", "{folder}/m.onnx"], "m.onnx is the model itself"),
        (["{folder}/none.onnx", "-o", "{folder}/out.onnx"], "none.onnx does not exist"),
        (["{folder}/m.onnx", "-o", "{folder}"], "cannot be written: Is a directory"),
        (["{folder}/m.onnx", "-o", "/proc/out.onnx"], "/proc/out.onnx cannot be written"),
    ],
)
def test_wrong_usage(test_library: str, tmp_path: Path, arguments: list[str], message: str) -> None:
    models.save_fusable_model(tmp_path / "m.onnx")
    found = command.invoke(
        command.child_environment(test_library), "optimize", *(text.format(folder=tmp_path) for text in arguments)
    )
    assert found.code == 2 and message in found.err, found
    assert not (tmp_path / "out.onnx").exists()


def test_the_helper_names_the_option(environment: dict[str, str], tmp_path: Path) -> None:
    model, saved = models.save_fusable_model(tmp_path / "m.onnx"), tmp_path / "saved.onnx"
    script = f"""
import onnxruntime as ort, ort_cuda_ep
ort_cuda_ep.register()
for regions in "10":
    options = ort.SessionOptions()
    options.optimized_model_filepath = {str(saved)!r}
    try:
        ort_cuda_ep.session({str(model)!r}, options, {{"compiled_regions": regions}})
        print("saved")
    except RuntimeError as error:
        print("refused:", "set provider option compiled_regions=0" in str(error))
"""
    child = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert child.stdout == "refused: True\nsaved\n", child
