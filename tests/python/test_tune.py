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


def test_what_is_printed_has_all_that_plans_depend_on(environment: dict[str, str], tmp_path: Path) -> None:
    model, plans = save_model(tmp_path / "m.onnx"), tmp_path / "plans"
    found = command.invoke(environment, "tune", model, "--dim", "batch=2", "--plans", plans, "--repeat", 1, "--json",
                           "--option", "use_tf32=0")  # fmt: skip
    assert found.code == 0, found
    assert found.json["options"]["use_tf32"] == "0"
    assert found.json["options"]["tunable_op_enable"] == "1"


@pytest.mark.parametrize(
    ("option", "reason"),
    [("plan_cache.enable=0", "would not be kept"), ("deterministic_compute=1", "use no measured plan")],
)
def test_options_under_which_nothing_is_measured_are_refused(
    environment: dict[str, str], tmp_path: Path, option: str, reason: str
) -> None:
    model = save_model(tmp_path / "m.onnx")
    found = command.invoke(environment, "tune", model, "--plans", tmp_path / "plans", "--option", option)
    assert found.code == 2 and option in found.err and reason in found.err, found


def test_plans_that_cannot_be_kept_are_a_failure(environment: dict[str, str], tmp_path: Path) -> None:
    model = save_model(tmp_path / "m.onnx")
    (tmp_path / "file").write_text("")
    plans = tmp_path / "file" / "plans"
    found = command.invoke(environment, "tune", model, "--dim", "batch=2", "--plans", plans, "--repeat", 1)
    assert found.code == 1 and f"no measured plan is in {plans}" in found.err.replace("\n", ""), found


def test_what_is_wrong_is_said(environment: dict[str, str], tmp_path: Path) -> None:
    assert command.invoke(environment, "tune", tmp_path / "none.onnx", "--plans", tmp_path / "plans").code == 2
    model = save_model(tmp_path / "m.onnx")
    assert command.invoke(environment, "tune", model).code == 2  # no file
    arguments = ("tune", model, "--plans", tmp_path / "plans")
    found = command.invoke(environment, *arguments, "--option", "tunable_op_max_tuning_duration_ms=soon")
    assert found.code != 0 and "tunable_op_max_tuning_duration_ms" in found.out + found.err, found
    found = command.invoke(environment, *arguments, "--shape", "x=1,2")
    assert found.code != 0 and "Invalid rank for input: x" in found.err, found
