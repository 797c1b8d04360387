"""`explain` and the strict option, on the library under test and on the oldest and the newest host."""

import subprocess
import sys
from pathlib import Path

import command
import models
import pytest

from tests.session import segment_models

NO_TEXT = "no kernel for element types (float) -> (string)"
EP = "CUDAExecutionProvider"
APART = ("--option", "compiled_regions=0")


@pytest.fixture(params=command.VERSIONS)
def environment(request: pytest.FixtureRequest, test_library: str) -> dict[str, str]:
    return command.child_environment(test_library, request.param)


@pytest.fixture
def newest(test_library: str) -> dict[str, str]:
    return command.child_environment(test_library)


def test_every_node_is_explained(environment: dict[str, str], tmp_path: Path) -> None:
    found = command.invoke(environment, "explain", models.save_mixed_model(tmp_path / "m.onnx"), "--json")
    assert found.code == 0, found
    report = found.json
    placements = {node["name"]: (node["placement"], node["reason"]) for node in report["nodes"]}
    ours, shape = ("provider", ""), ("shape", "")
    assert placements == {
        "add": ours,
        "to_text": ("unsupported", NO_TEXT),
        "": ("unsupported", "no kernel for element types (string) -> (float)"),
        "relu": ours,
        "shape": ours,
        "sums": shape,  # no kernel either, but what it computes is a shape
        "rows": shape,
        "new_dims": shape,
        "reshape": ours,
    }
    assert (report["ok"], report["compute_nodes_elsewhere"], report["shape_nodes"]) == (False, 2, 3)
    assert report["copies"] == [
        {"direction": "to host", "value": "sum", "producer": "Add add", "consumers": ["Cast to_text"]},
        {"direction": "to device", "value": "back", "producer": "Cast back", "consumers": ["Relu relu"]},
    ]


def test_the_tables_are_aligned_and_whole(newest: dict[str, str], tmp_path: Path) -> None:
    found = command.invoke(newest, "explain", models.save_mixed_model(tmp_path / "m.onnx"))
    assert found.code == 0, found
    lines = [line.rstrip() for line in found.out.splitlines()]
    assert f"compute    4 on {EP}, 2 elsewhere" in lines
    header = lines.index("compute nodes elsewhere") + 1
    columns = [lines[header].index(word) for word in ("operator", "node", "why")]
    assert [lines[header + 1][start:].split("  ")[0] for start in columns] == ["Cast", "to_text", NO_TEXT]
    assert "with output back" in lines[header + 2]
    assert found.err == ""


def test_what_the_host_fused_afterwards_is_listed(newest: dict[str, str], tmp_path: Path) -> None:
    found = command.invoke(newest, "explain", models.save_fusable_model(tmp_path / "m.onnx"), *APART, "--json")
    assert found.json["fused"] == {"com.microsoft.QuickGelu": 1}
    assert found.json["copies"] == []


def test_regions_are_explained(environment: dict[str, str], tmp_path: Path) -> None:
    """Which nodes, what runs in their place, what was rewritten and nearly was; shape arithmetic is inside."""
    model = models.save_regions_model(tmp_path / "m.onnx")
    found = command.invoke(environment, "explain", model, "--option", "compiled_regions=1", "--json")
    assert (found.code, found.json["error"]) == (0, ""), found
    report = found.json
    placements = {node["name"]: (node["placement"], node["region"]) for node in report["nodes"]}
    inside, (evaluated, region) = ("provider", placements["add"][1]), placements["shape"]
    assert (evaluated, placements["gather"], placements["concat"]) == (
        "evaluated",
        (evaluated, region),
        (evaluated, region),
    )
    assert (placements["double"], placements["reshape"]) == (("provider", region), ("provider", region))
    assert {placements[name] for name in ("conv", "add", "relu", "second", "spread")} == {inside} and inside[
        1
    ] != region
    assert placements["to_text"] == ("unsupported", None)
    assert (report["shape_nodes"], report["shape_nodes_in_regions"], len(report["regions"])) == (0, 3, 2)
    fused = next(one for one in report["regions"] if one["number"] == inside[1])
    alone = ["Conv node 'second'", "Add node 'spread'"]
    nodes = ["Conv node 'conv'", "Add node 'add'", "Relu node 'relu'"]
    assert [step["nodes"] for step in fused["steps"]] == [nodes, *([one] for one in alone)], fused
    assert fused["rewritten"] == [{"name": "conv_epilogue", "nodes": nodes, "reason": ""}]
    (missed,) = fused["missed"]
    assert (missed["name"], missed["nodes"]) == ("conv_epilogue", alone[1:]), missed
    assert "not stated to have the dimensions" in missed["reason"]
    expected = [("to host", "c"), ("to device", "back")]
    assert [(copy["direction"], copy["value"]) for copy in report["copies"]] == expected, report["copies"]
    text = command.invoke(environment, "explain", model, "--option", "compiled_regions=1").out
    assert "3 in regions: on the host, once for each set of input dimensions" in text, text
    assert "conv_epilogue" in text and missed["reason"][:40] in text, text


def test_what_nearly_became_part_of_a_region_is_explained(environment: dict[str, str], tmp_path: Path) -> None:
    """A Loop over bags but for one node, which stays outside of regions; and one that is part of it."""
    why = "it does not reduce along the first axis alone"
    near = segment_models.torchlib("sum", edits={"r = ReduceSum(part, axis)": "r = ReduceSum(part, ones)"})
    for model, missed in ((near, [why]), (segment_models.torchlib("sum"), [])):
        (tmp_path / "m.onnx").write_bytes(model)
        report = command.invoke(environment, "explain", tmp_path / "m.onnx", "--json").json
        notes = [(note["name"], note["reason"]) for note in report["missed"]]
        assert notes == [("embedding_bag", reason) for reason in missed]
        done = [note["name"] for region in report["regions"] for note in region["rewritten"]]
        assert done.count("embedding_bag") == 1 - len(missed), report
        text = command.invoke(environment, "explain", tmp_path / "m.onnx").out
        assert (why[:30] in text) == bool(missed), text


def test_expected_copies_are_those_of_the_host(environment: dict[str, str], tmp_path: Path) -> None:
    """With a region and without, the two sources say the same."""
    model = models.save_regions_model(tmp_path / "m.onnx")
    copies = [
        command.invoke(environment, "explain", model, "--option", f"compiled_regions={on}", "--json").json["copies"]
        for on in (0, 1)
    ]
    assert copies[0] == copies[1] and len(copies[0]) == 2, copies


@pytest.mark.parametrize(("save", "code"), [(models.save_mixed_model, 1), (models.save_fusable_model, 0)])
def test_strict_is_an_exit_code(newest: dict[str, str], tmp_path: Path, save: object, code: int) -> None:
    assert callable(save)
    assert command.invoke(newest, "explain", save(tmp_path / "m.onnx"), "--strict").code == code


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (
            models.save_mixed_model,
            f"2 of 6 compute nodes are not on {EP}:\n  Cast node 'to_text': {NO_TEXT}\n  Cast node with",
        ),
        (models.save_text_model, f"2 of 2 compute nodes are not on {EP}:\n  Cast node 'to_text'"),
        (
            models.save_branch_model,
            f"2 of 2 compute nodes inside If node 'branch' are not on {EP}:\n  Cast node 'to_text'",
        ),
    ],
)
def test_the_strict_option_fails_the_session(
    environment: dict[str, str], tmp_path: Path, save: object, message: str
) -> None:
    assert callable(save)
    model = save(tmp_path / "m.onnx")
    strict = command.invoke(environment, "explain", model, "--option", "require_all_compute_nodes=1", "--json")
    assert strict.code == 3
    assert strict.json["error"].startswith("NOT_SUPPORTED: require_all_compute_nodes is set, and ")
    assert message in strict.json["error"]
    assert strict.json["nodes"], "the report is there all the same"
    lenient = command.invoke(environment, "explain", model, "--option", "require_all_compute_nodes=0", "--json")
    assert (lenient.code, lenient.json["error"]) == (0, "")


@pytest.mark.parametrize("save", [models.save_fusable_model, models.save_function_model, models.save_reshape_model])
def test_the_strict_option_allows_shape_nodes_and_functions(
    environment: dict[str, str], tmp_path: Path, save: object
) -> None:
    assert callable(save)
    model = save(tmp_path / "m.onnx")
    found = command.invoke(environment, "run", model, "--option", "require_all_compute_nodes=1", "--json")
    assert found.code == 0, found
    assert found.json["compute_nodes_elsewhere"] == 0


def test_a_function_is_explained_by_its_body(environment: dict[str, str], tmp_path: Path) -> None:
    report = command.invoke(environment, "explain", models.save_function_model(tmp_path / "m.onnx"), "--json").json
    assert [(node["op_type"], node["placement"]) for node in report["nodes"]] == [("Add", "provider")] * 2


def test_the_strict_option_as_a_session_entry(environment: dict[str, str], tmp_path: Path) -> None:
    script = f"""
import onnxruntime as ort, ort_cuda_ep
ort_cuda_ep.register()
options = ort.SessionOptions()
options.add_session_config_entry("ep.cuda.require_all_compute_nodes", "1")
try:
    ort_cuda_ep.session({str(models.save_text_model(tmp_path / "m.onnx"))!r}, options)
except Exception as error:
    print("refused:", "require_all_compute_nodes is set" in str(error))
"""
    child = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert child.stdout == "refused: True\n", child


def test_a_report_that_cannot_be_written_fails_the_session(environment: dict[str, str], tmp_path: Path) -> None:
    model = models.save_fusable_model(tmp_path / "m.onnx")
    found = command.invoke(environment, "run", model, "--option", f"placement_report={tmp_path}/no/r.json", "--json")
    assert found.code == 2
    expected = f"INVALID_ARGUMENT: provider option placement_report: cannot write {tmp_path}/no/r.json: No such file"
    assert found.json["error"].startswith(expected)


def _text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("subcommand", ["explain", "run"])
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{folder}/none.onnx"], 2, "none.onnx does not exist"),
        (["{folder}"], 2, "is not a file"),
        (["{folder}/corrupt.onnx"], 2, "INVALID_PROTOBUF"),
        (["{folder}/good.onnx", "--option", "foo=1"], 2, "unknown provider option 'foo'"),
        (["{folder}/good.onnx", "--option", "use_tf32=maybe"], 2, "use_tf32='maybe' is malformed; accepted: 0, 1"),
        (["{folder}/good.onnx", "--option", "foo"], 2, "given as key=value, not 'foo'"),
        (["{folder}/good.onnx", "--device-id", "9"], 3, "device_id 9 does not exist: 1 device(s) were found"),
    ],
)
def test_errors_are_one_line(
    newest: dict[str, str], tmp_path: Path, subcommand: str, arguments: list[str], code: int, message: str
) -> None:
    models.save_fusable_model(tmp_path / "good.onnx")
    _text(tmp_path / "corrupt.onnx", "not a model")
    found = command.invoke(newest, subcommand, *(text.format(folder=tmp_path) for text in arguments))
    assert (found.code, found.out) == (code, ""), found
    assert found.err.startswith("error: ")
    assert found.err.count("\n") == 1
    assert message in found.err


@pytest.mark.parametrize("subcommand", ["explain", "run"])
def test_a_missing_library_is_one_line(newest: dict[str, str], tmp_path: Path, subcommand: str) -> None:
    model = models.save_fusable_model(tmp_path / "m.onnx")
    found = command.invoke({**newest, "ORT_CUDA_EP_LIBRARY": "/nowhere.so"}, subcommand, model)
    assert (found.code, found.out) == (3, "")
    assert found.err == "error: ORT_CUDA_EP_LIBRARY names /nowhere.so, which is not a file\n"


@pytest.mark.parametrize("subcommand", ["explain", "run"])
def test_no_device_says_why(newest: dict[str, str], tmp_path: Path, subcommand: str) -> None:
    model = models.save_fusable_model(tmp_path / "m.onnx")
    found = command.invoke({**newest, "CUDAEP_SIM_DEVICES": "0", "CUDA_VISIBLE_DEVICES": ""}, subcommand, model)
    assert (found.code, found.out) == (3, "")
    assert found.err.startswith("error: there is no device: ")
