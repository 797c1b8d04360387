"""`ort-cuda-ep tune`, on the library under test."""

from pathlib import Path

import command
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.session import models


@pytest.fixture
def environment(test_library: str) -> dict[str, str]:
    return command.child_environment(test_library)


def save_model(path: Path) -> Path:
    """A convolution and a product, of images whose number is open."""
    image: tuple[int, list[int | str]] = (TensorProto.FLOAT, ["batch", 3, 6, 6])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "m"], ["y"]),
    ]
    weights = {"w": np.ones((4, 3, 3, 3), np.float32), "m": np.ones((4, 5), np.float32)}
    path.write_bytes(models.model(nodes, {"x": image}, {"y": (TensorProto.FLOAT, ["batch", 5])}, weights))
    return path


def test_plans_are_measured_and_kept(environment: dict[str, str], tmp_path: Path) -> None:
    model, plans = save_model(tmp_path / "m.onnx"), tmp_path / "plans"
    arguments = ("tune", model, "--dim", "batch=2", "--plans", plans, "--repeat", 2)
    found = command.invoke(environment, *arguments, "--json")
    assert found.code == 0, found
    assert found.json["before_ms"] > 0 and found.json["after_ms"] > 0 and found.json["measuring_s"] > 0
    options = found.json["options"]
    assert options["plan_cache.path"] == str(plans)
    kept = plans.read_bytes()
    assert kept.count(b" measured") == 2, kept
    # Sessions with these options find them there, and the same shapes need no others.
    flags = [f"--option={key}={value}" for key, value in options.items()]
    run = command.invoke(environment, "run", model, "--dim", "batch=2", "--repeat", 1, *flags)
    assert run.code == 0, run
    assert plans.read_bytes() == kept
    again = command.invoke(environment, *arguments)
    assert "tunable_op_enable=1" in again.out and "measuring took" in again.out, again
    assert plans.read_bytes() == kept


def test_what_is_wrong_is_said(environment: dict[str, str], tmp_path: Path) -> None:
    assert command.invoke(environment, "tune", tmp_path / "none.onnx").code == 2
    model = save_model(tmp_path / "m.onnx")
    found = command.invoke(environment, "tune", model, "--option", "tunable_op_max_tuning_duration_ms=soon")
    assert found.code != 0 and "tunable_op_max_tuning_duration_ms" in found.out + found.err, found
    found = command.invoke(environment, "tune", model, "--shape", "x=1,2")
    assert found.code != 0 and "Invalid rank for input: x" in found.err, found
