"""`explain --budget`, on the library under test and on the oldest and the newest host."""

from pathlib import Path

import command
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.session import models

MIB = 1 << 20


@pytest.fixture(params=command.VERSIONS)
def environment(request: pytest.FixtureRequest, test_library: str) -> dict[str, str]:
    return command.child_environment(test_library, request.param)


def save_chain(path: Path, rows: int | str = 4) -> Path:
    """Four additions of constants of 4 MiB, and what a host that wants a stats file is content with."""
    dims: tuple[int, list[int | str]] = (TensorProto.FLOAT, [1, MIB] if rows == 4 else [rows, MIB])
    constants = {f"w{i}": np.full(MIB, i + 1, np.float32) for i in range(4)}
    nodes = [helper.make_node("Add", [f"v{i}", f"w{i}"], [f"v{i + 1}"], name=f"add{i}") for i in range(4)]
    path.write_bytes(models.model(nodes, {"v0": dims}, {"v4": dims}, constants))
    (path.parent / "none.csv").write_text("#name,a,b,c,d\n")
    return path


def test_what_fits_is_on_the_provider(environment: dict[str, str], tmp_path: Path) -> None:
    model = save_chain(tmp_path / "m.onnx")
    counts = []
    for mib in (0, 15, 24, 30, 1000):
        found = command.invoke(environment, "explain", model, "--budget", f"{mib * 1024},none.csv", "--json")
        assert found.code == 0, found
        report = found.json
        counts.append(report["compute_nodes_on_provider"])
        places = [node["placement"] for node in report["nodes"]]
        assert places == ["provider"] * counts[-1] + ["budget"] * (4 - counts[-1]), places
        assert report["budget"]["limit_bytes"] == mib * MIB and report["budget"]["stated_bytes"] <= mib * MIB
    # 12 MiB for the first, with its input, and 8 MiB for each after it; hosts with an account allow no more.
    assert counts[0] == 0 and counts[-1] == 4, counts
    assert counts == sorted(counts) and all(count <= most for count, most in zip(counts, (0, 1, 2, 3, 4), strict=True))


def test_a_region_has_no_more_than_the_host_takes(test_library: str, tmp_path: Path) -> None:
    """A host that counts too would drop the whole region for one of its nodes."""
    newest = command.child_environment(test_library)
    side = 1024
    weights = {f"w{i}": np.full((side, side), 1 / side, np.float32) for i in range(8)}
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"], name=f"product{i}") for i in range(8)]
    dims: tuple[int, list[int | str]] = (TensorProto.FLOAT, [4, side])
    model = tmp_path / "m.onnx"
    model.write_bytes(models.model(nodes, {"v0": dims}, {"v8": dims}, weights))
    counts = []
    for mib in (2, 8, 20, 40, 48, 56):
        found = command.invoke(newest, "explain", model, "--budget", str(mib * 1024), "--json")
        assert found.code == 0, found
        counts.append(found.json["compute_nodes_on_provider"])
        assert len(found.json["regions"]) == int(counts[-1] > 1), (mib, found.json["regions"])
    # 4 MiB and some for each, one and a half times that by the host's account.
    assert counts == [0, 1, 3, 6, 7, 8], counts


def test_the_text_has_the_figures(test_library: str, tmp_path: Path) -> None:
    newest = command.child_environment(test_library)
    found = command.invoke(newest, "explain", save_chain(tmp_path / "m.onnx"), "--budget", str(1000 * 1024))
    assert found.code == 0, found
    assert "budget     1000.0 MiB; 36.0 MiB stated for 4 nodes\n" in found.out, found.out
    rows = [line.split() for line in found.out.splitlines() if " add" in line and "MiB" in line]
    assert [row[0:2] for row in rows] == [["Add", f"add{i}"] for i in range(4)], found.out
    assert [row[2] for row in rows] == ["12.0", "8.0", "8.0", "8.0"], found.out


def test_unknown_costs_are_said(test_library: str, tmp_path: Path) -> None:
    newest = command.child_environment(test_library)
    model = save_chain(tmp_path / "m.onnx", rows="n")
    found = command.invoke(newest, "explain", model, "--budget", str(1000 * 1024))
    assert "16.0 MiB stated for 4 nodes, 4 of them in part unknown" in found.out, found.out
    found = command.invoke(
        newest, "explain", model, "--budget", str(1000 * 1024), "--option", "budget_dynamic_dim=1", "--json"
    )
    assert found.json["budget"]["unknown_nodes"] == 0, found.out
    assert found.json["budget"]["stated_bytes"] == 36 * MIB, found.out


def test_nodes_that_the_host_reordered_count_once(environment: dict[str, str], tmp_path: Path) -> None:
    """Two outputs, turned channels-last: every node is the provider's once, and none was dropped by the host."""
    image: tuple[int, list[int | str]] = (TensorProto.FLOAT, [1, 16, 48, 48])
    weights = {f"w{i}": np.full((16, 16, 3, 3), 0.1, np.float32) for i in range(3)}
    nodes = [
        helper.make_node("Conv", [source, f"w{i}"], [result], name=f"conv{i}", pads=[1, 1, 1, 1])
        for i, (source, result) in enumerate([("x", "v"), ("v", "y0"), ("v", "y1")])
    ]
    model = tmp_path / "m.onnx"
    model.write_bytes(models.model(nodes, {"x": image}, {"y0": image, "y1": image}, weights))
    (tmp_path / "none.csv").write_text("#name,a,b,c,d\n")
    found = command.invoke(
        environment, "explain", model, "--budget", "8000,none.csv", "--option", "prefer_nhwc=1", "--json"
    )
    assert found.code == 0, found
    report = found.json
    places = [node["placement"] for node in report["nodes"]]
    assert places == ["provider"] * len(places), report["nodes"]
    assert [node["op_type"] for node in report["nodes"]].count("Conv") == 3, report["nodes"]
    assert report["budget"]["nodes"] == len(places), report["budget"]
    assert report["budget"]["stated_bytes"] == sum(node["cost"]["bytes"] for node in report["nodes"]), report["budget"]


def test_a_malformed_budget_is_wrong_usage(test_library: str, tmp_path: Path) -> None:
    newest = command.child_environment(test_library)
    found = command.invoke(newest, "explain", save_chain(tmp_path / "m.onnx"), "--budget", "4GB")
    assert found.code == 2, found
    assert "session.resource_cuda_partitioning_settings='4GB' is malformed" in found.err, found
