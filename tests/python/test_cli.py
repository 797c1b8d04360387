"""The command line: exit codes, messages and JSON, on the CPU provider."""

import json
from pathlib import Path

import numpy as np
import ort_cuda_ep
import pytest
from models import save_reshape_model
from ort_cuda_ep import _provider
from ort_cuda_ep.cli import app
from typer.testing import CliRunner, Result


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_reshape_model(tmp_path / "m.onnx")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_run_reports_as_json(model: Path) -> None:
    result = invoke("run", model, "--dim", "batch=3", "--provider", "cpu", "--repeat", 2, "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert report["ok"] is True
    assert report["compute_nodes_on_provider"] == 2
    assert report["time_ms"]["runs"] == 2
    assert report["difference"]["max_abs"] == 0


def test_run_prints(model: Path) -> None:
    result = invoke("run", model, "--provider", "cpu", "--nodes")
    assert result.exit_code == 0
    assert "2 compute nodes on CPUExecutionProvider, 0 elsewhere" in result.stdout
    assert "Reshape" in result.stdout


def test_run_takes_npz_inputs(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((2, 2, 3), np.float32))
    assert invoke("run", model, "--inputs", tmp_path / "in.npz", "--provider", "cpu").exit_code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "does not exist"), (b"text", "is not an .npz file"), (b"PK\x05\x06" + b"\0" * 18, "no array")],
)
def test_run_refuses_inputs_that_cannot_be_read(
    model: Path, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "in.npz"
    if content is not None:
        path.write_bytes(content)
    result = invoke("run", model, "--inputs", path, "--provider", "cpu", "--json")
    assert result.exit_code == 2
    assert f"{path} " in json.loads(result.stdout)["error"]
    assert message in json.loads(result.stdout)["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dim", "height=3"], "the model has no dimension height; it has batch"),
        (["--dim", "batch"], "a dimension is given as name=value"),
        (["--shape", "z=1,2"], "the model has no input z; it has x"),
        (["--shape", "x=1,-2"], "a shape is given as"),
        (["--shape", "x=1,2,4"], "cannot run the model with these inputs"),
        (["--option", "fusion"], "key=value"),
    ],
)
def test_run_refuses_bad_input(model: Path, arguments: list[str], message: str) -> None:
    result = invoke("run", model, "--provider", "cpu", "--json", *arguments)
    assert result.exit_code == 2
    assert message in json.loads(result.stdout)["error"]


def test_run_refuses_a_corrupt_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    result = invoke("run", tmp_path / "m.onnx", "--json")
    assert result.exit_code == 2
    assert "m.onnx" in json.loads(result.stdout)["error"]


def test_run_without_a_library(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_provider, "_registered", {})
    monkeypatch.setenv(ort_cuda_ep.LIBRARY_VARIABLE, str(tmp_path / "none.so"))
    result = invoke("run", model, "--json")
    assert result.exit_code == 3
    assert "none.so" in json.loads(result.stdout)["error"]


def test_doctor_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_provider, "_registered", {})
    monkeypatch.setenv(ort_cuda_ep.LIBRARY_VARIABLE, str(tmp_path / "none.so"))
    result = invoke("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    provider = next(finding for finding in report["findings"] if finding["subject"] == "registration")
    assert provider["state"] == "problem"
    assert provider["advice"]
