"""Models that people serve, as real exporters write them: right, whole on our provider, without copies in between.

Each file of `graphs/` is one model (docs/guides/models.md). Its float16 and bfloat16 forms are judged against its
float32 results.
"""

import functools
import lzma
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from ..session import host
from . import gaps, precision, runs, weights

GRAPHS = Path(__file__).parent / "graphs"
NAMES = sorted(path.name.removesuffix(".onnx.xz") for path in GRAPHS.glob("*.onnx.xz"))
FORMS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
# Shares of an output's largest value: rounding of each type through some ten layers; a step of a quantised output.
TOLERANCE = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}
QUANTISED_TOLERANCE = 5e-2
QUANTISED = ("qdq", "qoperator", "dynamic")


def forms(name: str) -> list[str]:
    alone = name in gaps.FLOAT32_ONLY or name.split(".")[1] in QUANTISED
    return ["float32"] if alone else [form for form in FORMS if form != "bfloat16" or name not in gaps.NO_BFLOAT16]


@functools.cache
def operators(name: str) -> set[str]:
    with lzma.open(GRAPHS / f"{name}.onnx.xz") as file:
        return {node.op_type for node in onnx.load_model_from_string(file.read()).graph.node}


# In one region: no control flow but Loops over bags, and all sizes follow from those of the inputs.
WHOLE = ("resnet", "efficientnet", "mobilenet", "convnext", "bert.dynamo", "wav2vec2", "whisper_enc", "dlrm")
CONVOLVES = [name for name in NAMES if operators(name) & {"Conv", "ConvTranspose", "MaxPool"}]
CASES = [name if form == "float32" else f"{name}:{form}" for name in NAMES for form in forms(name)]


@functools.lru_cache(maxsize=1)  # the forms of a model follow one another
def reference(name: str) -> tuple[onnx.ModelProto, weights.Feeds, list[list[np.ndarray]]]:
    model, feeds = weights.load(GRAPHS / f"{name}.onnx.xz")
    return model, feeds, runs.run_on_cpu(model, feeds)


def run_case(case: str, options: dict[str, str] | None = None) -> tuple[runs.Result, list[str]]:
    name, _, form = case.partition(":")
    model, feeds, expected = reference(name)
    if form:
        model, feeds = precision.convert(model, FORMS[form]), precision.convert_feeds(feeds, FORMS[form])
    result = runs.run_on_ours(model, feeds, options)
    limit = QUANTISED_TOLERANCE if name.split(".")[1] in QUANTISED else TOLERANCE[form or "float32"]
    return result, runs.worst(result, expected, limit)


@pytest.mark.parametrize("case", CASES)
def test_model(case: str) -> None:
    check(case)
    name, _, form = case.partition(":")
    if not form or name in CONVOLVES or name.startswith("dlrm"):
        check_regions(case)


def check_regions(case: str) -> None:
    """The same with compiled regions, of which there are some, and with no node more on the CPU."""
    name, _, form = case.partition(":")
    model, feeds, expected = reference(name)
    if form:
        model, feeds = precision.convert(model, FORMS[form]), precision.convert_feeds(feeds, FORMS[form])
    result, nodes = runs.run_compiled(model, feeds, host.EXACT)
    limit = QUANTISED_TOLERANCE if name.split(".")[1] in QUANTISED else TOLERANCE[form or "float32"]
    assert not runs.worst(result, expected, limit)
    assert any(node.op_type.startswith(host.EP_NAME) for node in nodes), nodes
    elsewhere = {node.op_type for node in nodes if node.provider != host.EP_NAME}
    if name.startswith(WHOLE):
        assert len(nodes) == 1, elsewhere


@pytest.mark.parametrize("case", [case for case in CASES if case.partition(":")[0] in CONVOLVES])
def test_model_that_prefers_channels_last(case: str) -> None:
    check(case, {"prefer_nhwc": "1"})


def check(case: str, options: dict[str, str] | None = None) -> None:
    host.require_plugin()
    name = case.partition(":")[0]
    result, wrong = run_case(case, options)
    report = "\n".join([case, f"elsewhere: {result.elsewhere}", *result.copies, *wrong])
    assert not wrong, report
    assert set(result.elsewhere) == gaps.ELSEWHERE.get(name, set()), report
    down = sum(copy.startswith("MemcpyToHost") for copy in result.copies)
    assert (len(result.copies) - down, down) == gaps.COPIES.get(case, gaps.COPIES.get(name, (0, 0))), report


def test_every_gap_has_its_case() -> None:
    known = {*CASES, *NAMES}
    assert NAMES
    assert known >= {*gaps.ELSEWHERE, *gaps.COPIES, *gaps.FLOAT32_ONLY, *gaps.NO_BFLOAT16}


def test_the_graphs_stay_small() -> None:
    assert sum(path.stat().st_size for path in GRAPHS.iterdir()) <= 3_000_000


@pytest.mark.parametrize("change", ["result", "shape", "nan"])
def test_a_wrong_result_is_told(change: str) -> None:
    expected = np.linspace(-1, 1, 12, dtype=np.float32)
    actual = expected.copy()
    if change == "shape":
        actual = actual[:-1]
    else:
        actual[3] = np.nan if change == "nan" else actual[3] + 1e-3
    result = runs.Result([[actual]], {}, [], ["y"])
    assert runs.worst(result, [[expected]], 1e-5)
    assert not runs.worst(runs.Result([[expected]], {}, [], ["y"]), [[expected]], 1e-5)
