"""The benchmark (`python -m bench`): that it measures in turn, notices wrong results and dead workers, and reports."""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bench import __main__ as command_line
from bench import activities, cases, chart, driver, full_models, int4_decoder, models, report, subjects
from bench.activities import Activity

ROOT = Path(__file__).resolve().parents[2]
CPU = subjects.Subject("cpu", "cpu")


def the(name: str) -> cases.Case:
    return cases.select(cases.table(True), name)[0]


@pytest.fixture
def cpu(tmp_path: Path) -> Iterator[driver.Driver]:
    measuring = driver.Driver([CPU], tmp_path, tiny=True, repeats=2, say=pytest.fail)
    assert measuring.hello()["cpu"]["device"] == "CPU"
    yield measuring
    measuring.end()


def test_both_builds_and_bare_launches_in_one_run_by_the_command_line(test_library: str, tmp_path: Path) -> None:
    if not test_library.endswith("_sim.so"):
        pytest.skip("sizes and expectations are those of the simulated device")
    path = tmp_path / "report.json"
    words = ["run", "--library", test_library, "--baseline", test_library, "--repeats", "3", "--json", str(path)]
    words += ["--cases", "chain/20,bert/b1,product/float32*,Add*", "--settings", "default,graph,nodes,nodes+graph,fp32"]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")])}
    command = [sys.executable, "-m", "bench", *words]
    child = subprocess.run(command, env=where, capture_output=True, text=True, timeout=300, check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    assert child.stdout.count("simulated device: no measure of speed") == 4
    found = json.loads(path.read_text())
    assert (found["schema"], found["simulated"], found["scale"]) == (report.SCHEMA, True, "tiny")
    assert found["subjects"]["ours"]["sha256"] == found["subjects"]["baseline"]["sha256"]
    assert str(ROOT) not in path.read_text()
    results = {case["name"]: case["results"] for case in found["cases"]}
    assert set(results["chain/20"]) == {
        "bare",
        "cpu",
        *(
            f"{build}{setting}"
            for build in ("ours", "baseline")
            for setting in ("", ":graph", ":nodes", ":nodes+graph")
        ),
    }
    assert set(results["product/float32/m16"]) == {"ours", "ours:fp32", "baseline", "baseline:fp32"}
    assert results["chain/20"]["ours"]["placement"] == results["chain/20"]["ours:nodes"]["placement"]
    assert results["chain/20"]["ours:nodes"]["placement"] == {subjects.EP: 20}
    assert results["bert/b1"]["ours"]["placement"][subjects.EP] > 30
    for name, case in results.items():
        for subject, result in case.items():
            assert len(result["wall_us"]) == 3 and min(result["wall_us"]) > 0, (name, subject, result)
            assert result["device_us"] == []  # there is no device clock
            if subject != "bare":
                assert 0 <= result["error_norm"] < 5e-3, (name, subject)
    assert command_line.main(["compare", str(path), "--limit", "900"]) == 0
    slow = command_line.main(["compare", str(path), "--limit", "10", "--old", "cpu"])  # the CPU does not simulate
    assert slow == command_line.BEYOND_THE_LIMIT


class Recorded:
    """Stands for a worker and writes down what it is asked."""

    asked: list[tuple[str, str]]

    def __init__(self, subject: subjects.Subject) -> None:
        self.subject = subject

    def ask(self, action: str, **_: object) -> dict[str, Any]:
        Recorded.asked.append((self.subject.name, action))
        if action == "open" and self.subject.name == "c":
            return {"error": "refused"}
        return {"wall_us": 1.0} if action == "measure" else {}


def test_subjects_take_turns_back_and_forth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver, "Child", Recorded)
    Recorded.asked = []
    measuring = driver.Driver([subjects.Subject(name, "cpu") for name in "abc"], tmp_path, tiny=True, repeats=3)
    results = measuring.measure(the("chain/1"))
    assert [name for name, action in Recorded.asked if action == "measure"] == list("abbaab")
    assert results["a"]["wall_us"] == [1.0] * 3 and results["c"] == {"error": "refused"}


def test_a_wrong_result_is_an_error_of_its_case(cpu: driver.Driver) -> None:
    """The model adds in the wrong direction; its twin, which the reference comes from, does not."""

    def wrong(dtype: str) -> Any:
        return models.operator(dtype, "Sub" if dtype == "float16" else "Add", inputs=2)

    case = dataclasses.replace(the("Add*"), model=wrong, model_key="wrong")
    assert "wrong result: output y is off by" in cpu.measure(case)["cpu"]["error"]
    right = dataclasses.replace(case, model=lambda dtype: models.operator(dtype, "Add", inputs=2), model_key="right")
    assert cpu.measure(right)["cpu"]["error_norm"] < 1e-3


def test_nan_is_a_wrong_result(cpu: driver.Driver) -> None:
    """Outputs start as NaN, so what nobody wrote shows."""
    case = dataclasses.replace(
        the("chain/1"), feeds=lambda: {name: np.full(16, np.nan, "f4") for name in ("x", "step")}
    )
    assert "wrong result" in cpu.measure(case)["cpu"]["error"]


def test_a_worker_that_dies_is_an_error_of_its_case_alone(cpu: driver.Driver) -> None:
    (child,) = cpu._children
    assert child._process is not None
    child._process.kill()
    assert "the worker ended with exit code -9" in cpu.measure(the("chain/1"))["cpu"]["error"]
    assert cpu.measure(the("chain/20"))["cpu"]["error_norm"] == 0


def test_a_provider_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    who = [CPU, subjects.Subject("ours", "plugin", str(tmp_path / "nothing.so"))]
    measuring = driver.Driver(who, tmp_path, tiny=True, repeats=1, say=said.append)
    assert "error" in measuring.hello()["ours"] and "nothing.so" in said[0]
    assert set(measuring.measure(the("chain/1"))) == {"cpu"}
    measuring.end()


def test_upstream_without_its_provider_says_so(tmp_path: Path) -> None:
    """As it is when the folder holds the plain package."""
    (who,) = subjects.upstream("", "default")
    measuring = driver.Driver([who], tmp_path, tiny=True, repeats=1)
    measuring.hello()
    assert "has no CUDAExecutionProvider" in measuring.measure(the("chain/1"))["upstream"]["error"]
    measuring.end()


def test_settings_are_those_of_their_cases() -> None:
    who = {subject.name: subject for subject in subjects.upstream("site", "all")}
    assert who["upstream:nhwc+graph"].options == {"prefer_nhwc": "1", "enable_cuda_graph": "1"}
    taken = {name for name, subject in who.items() if subject.takes("bert/b1", "model")}
    ways = ("", ":graph", ":fixed", ":fixed+graph", ":offline", ":offline+graph")
    assert taken == {f"upstream{way}" for way in ways}
    assert not subjects.Subject("bare", "bare").takes("bert/b1", "model")
    with pytest.raises(ValueError, match="no setting is called fast; there are default, graph"):
        subjects.builds("library", "ours", "default,fast")


def test_every_case_has_a_tiny_twin_of_the_same_group() -> None:
    full, tiny = cases.table(False), cases.table(True)
    assert {case.group for case in full} == {case.group for case in tiny} == {
        "host", "model", "quantised", "product", "memory",
    }  # fmt: skip
    assert len({case.name for case in full}) == len(full)
    with pytest.raises(ValueError, match="no case matches nothing"):
        cases.select(tiny, "nothing")


def test_rows_that_are_compared_hold_the_first_and_the_last() -> None:
    sample = cases.select(cases.table(False), "LayerNormalization/float16/16384x4096")[0].sample()
    assert sample is not None and (sample[0], sample[-1], len(sample)) == (0, 16383, 64)


def test_bytes_are_inputs_once_and_the_output_once() -> None:
    by_name = {case.name: case for case in cases.table(False)}
    assert by_name["Add/float16/67108864"].bytes == 3 * 2 * (64 << 20)
    assert by_name["Softmax/float32/65536x1024"].bytes == 2 * 4 * (64 << 20)


def test_device_time_counts_what_overlaps_once() -> None:
    run = [Activity("a", 1000, 3000), Activity("b", 2000, 2500), Activity("c", 2800, 4000), Activity("d", 9000, 9500)]
    later = [Activity(one.name, one.start + 50_000, one.end + 51_000) for one in run]
    first, second = activities.split(run + later, 2)
    assert (first.busy_us, first.span_us) == (3.5, 8.5)
    assert (second.busy_us, second.span_us) == (5.5, 9.5)
    assert activities.split(run, 3) == []  # Runs that differ cannot be told apart


def test_kernels_are_summed_by_name_a_run() -> None:
    found = activities.by_name(
        [Activity("_Z3addv", 0, 1000), Activity("copy", 0, 9000), Activity("_Z3addv", 0, 3000)], 2
    )
    assert [(row["calls"], row["us"]) for row in found] == [(0.5, 4.5), (1, 2)]
    assert found[1]["name"] in ("add", "_Z3addv")


@pytest.fixture(scope="module")
def fake_cupti(tmp_path_factory: pytest.TempPathFactory) -> str:
    headers = Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")) / "include"
    if not (headers / "cupti.h").is_file():
        pytest.skip(f"the toolkit's cupti.h is not in {headers}")
    library = tmp_path_factory.mktemp("cupti") / "libfake_cupti.so"
    source = Path(__file__).with_name("fake_cupti.c")
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{headers}", str(source), "-o", str(library)], check=True)
    return str(library)


def test_records_are_read_as_the_toolkit_lays_them_out(fake_cupti: str) -> None:
    recorder = activities.Recorder(fake_cupti)
    for _ in range(2):  # detached in between
        recorder.start()
        found = recorder.stop()
        assert found == [Activity("_Z6kernelv", 1000, 3500), Activity("fill", 4000, 4500), Activity("copy", 5000, 6000)]


def test_a_driver_that_does_not_allow_it_says_so(fake_cupti: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUPTI_REFUSES", "1")
    with pytest.raises(RuntimeError, match="CUPTI: refused"):
        activities.Recorder(fake_cupti).start()


def test_every_model_of_full_size_has_its_graph() -> None:
    for model in full_models.TABLE:
        found = onnx.ModelProto.FromString(lzma.decompress((full_models.GRAPHS / f"{model.name}.onnx.xz").read_bytes()))
        assert {value.name for value in found.graph.input} == set(model.inputs), model.name
        for value in found.graph.input:
            kind, dims = model.inputs[value.name]
            tensor = value.type.tensor_type
            assert tensor.elem_type == (onnx.TensorProto.FLOAT16 if kind == "number" else onnx.TensorProto.INT64)
            for wanted, dim in zip(dims, tensor.shape.dim, strict=True):
                assert dim.dim_value == (0 if isinstance(wanted, str) else wanted), (model.name, value.name)
        weights = [tensor.doc_string for tensor in found.graph.initializer]
        assert sum(map(bool, weights)) > 20, model.name  # emptied, to be drawn anew
    assert {case.name for case in cases.full_size()} >= {"mobilenet_v3/b32", "decoder/prefill/b1", "decoder/step/b32"}


def test_a_model_of_full_size_agrees_with_its_twin(cpu: driver.Driver) -> None:
    case = next(case for case in cases.full_size() if case.name == "mobilenet_v3/b1")
    assert 1e-5 < cpu.measure(case)["cpu"]["error_norm"] < case.tolerance
    with pytest.raises(ValueError, match=r"no elsewhere\.onnx\.xz"):
        full_models.model("elsewhere", "float16")


def test_outputs_in_place_of_inputs_are_checked_with_what_they_keep(cpu: driver.Driver) -> None:
    """Caches that are past and present: the reference has them in one buffer too, a wrong pairing shows."""
    found = {case.name: case for case in command_line.table(True) if case.name.startswith("decoder_int4")}
    assert sorted(found) == [f"decoder_int4/{name}" for name in ("prefill/b1", "step/b1", "step/b8")]
    for case in found.values():
        assert 1e-5 < cpu.measure(case)["cpu"]["error_norm"] < 5e-3
    case = found["decoder_int4/step/b1"]
    (key, value), others = list(case.in_place.items())[:2], dict(list(case.in_place.items())[2:])
    crossed = {key[0]: value[1], value[0]: key[1], **others}
    request = cpu._prepare(case)
    (child,) = cpu._children
    assert "wrong result" in child.ask("open", **{**request, "in_place": crossed})["error"]


def test_weights_of_4_bits_are_those_that_were_rounded() -> None:
    for zero_points in (False, True):
        blocks = models.normal(3, (64, int4_decoder.BLOCK))
        codes, scales, zeros = int4_decoder.in_4_bits(blocks, zero_points)
        pairs = np.stack([codes & 15, codes >> 4], 2).reshape(blocks.shape).astype(np.float32)
        back = (pairs - zeros[:, None]) * scales[:, None]
        bound = np.abs(scales[:, None]) * (0.5 if zero_points else 1)  # there is no code for 8
        assert (np.abs(back - blocks) <= bound * 1.001).all()


def test_large_weights_lie_beside_their_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = the("bert/b1").model("float32")
    monkeypatch.setattr(driver, "_MOST_BYTES_INSIDE", 1000)
    driver.save(the("bert/b1").model("float32"), tmp_path / "large.onnx")
    assert (tmp_path / "large.onnx.data").stat().st_size > 1000
    found = onnx.load(tmp_path / "large.onnx")
    assert [numpy_helper.to_array(t).tobytes() for t in found.graph.initializer] == [
        numpy_helper.to_array(t).tobytes() for t in model.graph.initializer
    ]


def test_modes_of_torch_are_subjects_by_name() -> None:
    names = [subject.name for subject in subjects.torch("all")]
    assert names == ["torch:eager", "torch:reduce-overhead", "torch:max-autotune"]
    assert [s.takes("unet/b1", "full") for s in subjects.torch("all")] == [True, True, False]
    with pytest.raises(ValueError, match="no setting is called graph; there are eager"):
        subjects.torch("graph")


def test_clocks_are_those_that_nvidia_smi_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for printed, wanted in (
        ("1980, 3201, 512.25, 41", {"sm_mhz": 1980, "memory_mhz": 3201, "watts": 512.25, "celsius": 41}),
        ("1980, 3201, [N/A], 41", {}),
        ("", {}),
    ):
        tool.write_text(f"#!/bin/sh\necho '{printed}'\n")
        tool.chmod(0o755)
        assert driver.clocks() == wanted


def sweep_report() -> dict[str, Any]:
    def case(name: str, axes: dict[str, Any], us: dict[str, list[float]]) -> dict[str, Any]:
        results: dict[str, Any] = {subject: {"wall_us": values} for subject, values in us.items()}
        return {"name": name, "group": "sweep", "axes": axes, "results": results}

    net = {"model": "Net <1>", "dtype": "float16"}
    cases = [
        case("net/b1", {**net, "batch": 1}, {"ours": [9.0, 10.0, 12.0], "peer": [30.0]}),
        case("net/b8", {**net, "batch": 8}, {"ours": [20.0, 22.0, 21.0], "peer": [90.0]}),
        case("text/s16", {"model": "Text", "dtype": "float16", "batch": 1, "tokens": 16}, {"ours": [5.0]}),
        case("text/s32", {"model": "Text", "dtype": "float16", "batch": 1, "tokens": 32}, {"ours": [6.0]}),
    ]
    cases[1]["results"]["broken"] = {"error": "refused"}
    machine = {"gpu": "GPU", "driver": "1"}
    return {"cases": cases, "machine": machine, "simulated": False, "created": "now"}


def test_charts_have_a_line_a_subject_and_a_chart_a_varying_axis() -> None:
    net, text = chart.charts(sweep_report())
    assert (net.title, net.x, net.y) == ("Net <1>, float16", "batch", "us a Run")
    assert net.lines == {"ours": [(1, 9, 10, 12), (8, 20, 21, 22)], "peer": [(1, 30, 30, 30), (8, 90, 90, 90)]}
    assert (text.title, text.x) == ("Text, float16, batch 1", "tokens")
    (threads,) = chart.charts({"100 Adds": {"hosts": [{"threads": n, "runs_per_second": 5.0 * n} for n in (1, 16)]}})
    assert (threads.x, threads.lines) == ("threads", {"hosts": [(1, 5, 5, 5), (16, 80, 80, 80)]})


def test_a_page_of_charts_is_complete_and_true_to_scale(tmp_path: Path) -> None:
    given, made = tmp_path / "run.json", tmp_path / "page.html"
    given.write_text(json.dumps(sweep_report()))
    assert command_line.main(["chart", str(given), "-o", str(made)]) == 0
    text = made.read_text()
    assert text.count("<svg") == 2 and text.count("<polyline") == 3
    assert "Net &lt;1&gt;" in text and "GPU, driver 1" in text and "http" not in text.replace("http-equiv", "")
    ours, peer = (
        [tuple(map(float, pair.split(","))) for pair in found.split()]
        for found in re.findall(r'points="([^"]+)"', text)[:2]
    )
    assert ours[0][0] == peer[0][0] < ours[1][0] == peer[1][0]
    # Logarithmic: three times as much and 90 / 21 times as much are as far above as their logarithms are.
    first, second = ours[0][1] - peer[0][1], ours[1][1] - peer[1][1]
    assert first / second == pytest.approx(np.log(3) / np.log(90 / 21), abs=0.01)
    given.write_text(json.dumps({**sweep_report(), "cases": sweep_report()["cases"][:1]}))
    assert command_line.main(["chart", str(given), "-o", str(made)]) == command_line.UNUSABLE
