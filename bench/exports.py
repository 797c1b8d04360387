"""The exported models of the test suite (`tests/models/graphs`) as cases: small ones of real architectures, in fp16
where a model's results survive it.

Their widths are those of the tests, so that host time and launches weigh more than in models of full size.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto

from bench.cases import Case, Feeds
from tests.models import gaps, precision, weights

_GRAPHS = Path(__file__).resolve().parent.parent / "tests" / "models" / "graphs"


def _case(path: Path) -> Case:
    name = path.name.removesuffix(".onnx.xz")
    quantised = name.split(".")[1] not in ("torchscript", "dynamo")
    dtype = "float32" if quantised or name in gaps.FLOAT32_ONLY else "float16"

    def model(wanted: str) -> onnx.ModelProto:
        full = weights.load(path)[0]
        return full if wanted == "float32" else precision.convert(full, TensorProto.FLOAT16)

    def feeds() -> Feeds:
        given = weights.load(path)[1][:1]
        return given[0] if dtype == "float32" else precision.convert_feeds(given, TensorProto.FLOAT16)[0]

    return Case(
        f"export/{name}", "export", {"model": name, "dtype": dtype}, model, feeds, tolerance=5e-2 if quantised else 2e-2
    )


def table() -> tuple[Case, ...]:
    """All of them, at one size."""
    return tuple(_case(path) for path in sorted(_GRAPHS.glob("*.onnx.xz")))
