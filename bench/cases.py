"""What is measured: models and operators over their axes, each at full size and at a tiny one for the simulated device.

A case's outputs are checked against the fp32 twin of its model on the CPU provider, on a sample of rows where rows (or
images, or sentences) do not depend on each other.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from ort_cuda_ep.feeds import parse_dims, random_feeds

from bench import full_models, models

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One point of the table. `model` and `feeds` take the element type, so that they give the fp32 twin as well."""

    name: str
    group: str  # "host", "model", "quantised", "full", "sweep", "product", "memory", "operator", "export"
    axes: dict[str, str | int]
    model: Callable[[str], onnx.ModelProto]
    feeds: Callable[[], Feeds]
    tolerance: float  # of |output - reference| / |reference|, Euclidean norms
    rows: int = 0  # rows that are independent along axis 0; 0: the outputs are checked whole
    sampled: int = 64  # of these rows, how many are compared
    bytes: int = 0  # read and written once each, where memory is what bounds the case
    flops: int = 0
    launches: int = 0  # that a bare loop makes in its place
    repeated: int = 1  # equal steps in one Run, for figures of one
    rotate: bool = False  # buffers alternate, so that the L2 cache stays cold
    optimised: bool = True
    in_place: dict[str, str] = field(default_factory=dict)  # outputs that are bound to the buffer of an input
    twin: bool = True  # the reference is computed in fp32; a model from a file is its own reference
    model_key: str = field(default="", compare=False)  # cases with one model share its file

    @property
    def dtype(self) -> str:
        """Element type of the model."""
        return str(self.axes["dtype"])

    def sample(self) -> np.ndarray | None:
        """The rows that are compared, or None for all of them."""
        if self.rows <= self.sampled:
            return None
        return np.unique(np.linspace(0, self.rows - 1, self.sampled).astype(np.int64))


def _sentences(batch: int, tokens: int, words: int) -> Feeds:
    rng = np.random.default_rng(5)
    lengths = rng.integers(tokens // 2, tokens + 1, (batch, 1))
    return {
        "input_ids": rng.integers(0, words, (batch, tokens)),
        "attention_mask": (np.arange(tokens)[None] < lengths).astype(np.int64),
        "token_type_ids": rng.integers(0, 2, (batch, tokens)),
    }


def _resnet(batch: int, tiny: bool, group: str = "model") -> Case:
    side, options = (32, {"width": 8, "blocks": (1, 1, 1, 1), "classes": 10}) if tiny else (224, {})
    return Case(
        f"resnet50/{'' if group == 'model' else group + '/'}b{batch}",
        group,
        {"model": "ResNet-50", "dtype": "float16", "batch": batch, "side": side},
        lambda dtype: models.resnet(dtype, **options),  # type: ignore[arg-type]
        lambda: {"x": models.numbers("float16", batch, 3, side, side)},
        tolerance=5e-3,
        rows=batch,
        sampled=4,
        model_key="resnet50",
    )


def _bert(batch: int, tiny: bool, length: int = 0) -> Case:
    tokens, words = (length or 8, 50) if tiny else (length or 128, 30522)
    options = {"layers": 1, "width": 32, "heads": 2, "words": words, "positions": 16} if tiny else {}
    return Case(
        f"bert/sweep/s{length}" if length else f"bert/b{batch}",
        "sweep" if length else "model",
        {"model": "BERT-base", "dtype": "float16", "batch": batch, "tokens": tokens},
        lambda dtype: models.bert(dtype, **options),
        lambda: _sentences(batch, tokens, words),
        tolerance=5e-3,
        rows=batch,
        sampled=4,
        model_key="bert",
    )


def _quantised(case: Case, calibrated_by: Case) -> Case:
    """The same model in 8 bits, by QuantizeLinear and DequantizeLinear; its reference is itself on the CPU."""

    def feeds(of: Case) -> Feeds:
        return {name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in of.feeds().items()}

    def model(_: str) -> onnx.ModelProto:
        from bench.quantised import quantised  # which takes seconds to import

        return quantised(case.model("float32"), [feeds(calibrated_by)])

    name, _, batch = case.name.rpartition("/")
    return dataclasses.replace(
        case,
        name=f"{name}/qdq/{batch}",
        group="quantised",
        axes={**case.axes, "dtype": "float32", "codes": "int8"},
        model=model,
        feeds=lambda: feeds(case),
        tolerance=0.3,  # codes next to a tie are others, and a deep random network carries them on
        twin=False,
        model_key=f"{case.model_key}_qdq",
    )


def _product(rows: int, dtype: str, tiny: bool) -> Case:
    size, length = (32, 2) if tiny else (4096, 8)  # eight weights of 32 MiB: four times the L2 cache of any GPU
    return Case(
        f"product/{dtype}/m{rows}",
        "product",
        {"dtype": dtype, "m": rows, "n": size, "k": size},
        lambda dtype: models.products(dtype, size, length),
        lambda: {"x": models.numbers(dtype, rows, size)},
        tolerance=2e-3 if dtype == "float16" else 5e-3,  # room for TF32
        rows=rows,
        flops=2 * rows * size * size,
        repeated=length,
        model_key=f"product_{dtype}",
    )


def _memory(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    tiny: bool = False,
    inputs: int = 1,
    parameters: int = 0,
    **attributes: Any,
) -> Case:
    shape = tuple(max(1, dim // 32) if dim >= 64 else dim for dim in shape) if tiny else shape
    count = int(np.prod(shape))
    return Case(
        f"{name}/{dtype}/{'x'.join(map(str, shape))}",
        "memory",
        {"operator": name, "dtype": dtype, "shape": "x".join(map(str, shape))},
        lambda dtype: models.operator(dtype, name, inputs, parameters, shape[-1], **attributes),
        lambda: {f"x{i}": np.roll(models.numbers(dtype, *shape), 7 * i) for i in range(inputs)},
        tolerance=2e-3 if dtype == "float16" else 1e-5,
        rows=shape[0] if name != "Transpose" else 0,
        sampled=64 if len(shape) > 1 else 1 << 16,
        bytes=(inputs + 1) * count * np.dtype(dtype).itemsize,
        rotate=True,
    )


def _chain(length: int) -> Case:
    return Case(
        f"chain/{length}",
        "host",
        {"operator": "Add", "dtype": "float32", "nodes": length, "elements": 16},
        lambda _: models.add_chain(length),
        lambda: {"x": models.numbers("float32", 16), "step": models.numbers("float32", 16)},
        tolerance=1e-5,
        launches=length,
        repeated=length,
        optimised=False,
    )


def _elementwise(dtype: str, rows: int, tiny: bool) -> Case:
    rows = max(1, rows // 1024) if tiny else rows
    return Case(
        f"elementwise/{dtype}/{rows}x1024",
        "memory",
        {"operator": "20 element-wise", "dtype": dtype, "shape": f"{rows}x1024"},
        lambda dtype: models.elementwise_chain(dtype, 1024),
        lambda: {"x": models.numbers(dtype, rows, 1024)},
        tolerance=5e-3 if dtype == "float16" else 1e-5,
        rows=rows,
        bytes=2 * rows * 1024 * np.dtype(dtype).itemsize,
        rotate=rows > 1,
        model_key=f"elementwise_{dtype}",
    )


def _full(model: full_models.FullModel, batch: int, variant: str) -> Case:
    parts = [model.name, variant, f"b{batch}"]
    return Case(
        "/".join(filter(None, parts)),
        "full",
        {"model": model.name, "dtype": "float16", "batch": batch, **model.sizes[variant]},
        lambda dtype: full_models.model(model.name, dtype),
        lambda: model.feeds(batch, variant),
        tolerance=2e-2,
        rows=batch,
        sampled=1,
        model_key=model.name,
    )


def full_size() -> tuple[Case, ...]:
    """Exports of full size; there is no tiny form of them."""
    return tuple(
        _full(model, batch, variant)
        for model in full_models.TABLE
        for variant in model.sizes
        for batch in model.batches
    )


def sweep(tiny: bool) -> tuple[Case, ...]:
    """Cost against batch and against the number of tokens."""
    batches, lengths = ((1, 2), (4, 8)) if tiny else ((1, 2, 4, 8, 16, 32, 64, 128), (16, 32, 64, 128, 256, 512))
    return (
        *(_resnet(batch, tiny, "sweep") for batch in batches),
        *(_bert(1, tiny, length) for length in lengths),
    )


@functools.cache
def table(tiny: bool) -> tuple[Case, ...]:
    """All cases. What only costs host time comes first, before anything is recorded on the device."""
    memory = functools.partial(_memory, tiny=tiny)
    norm: dict[str, Any] = {"parameters": 2, "axis": -1}
    skip: dict[str, Any] = {"parameters": 2, "domain": "com.microsoft", "epsilon": 1e-5}
    rows = (("float16", (16384, 4096)), ("float16", (1024, 131072)), ("float32", (65536, 1024)))
    long_rows = (
        ("float16", (4096, 32768)),
        ("float16", (2048, 65536)),
        ("float16", (64, 131072)),
        ("float16", (512, 262144)),
        ("float32", (1024, 65536)),
    )
    flat = (64 << 20,)
    return (
        _chain(1),
        _chain(20 if tiny else 1000),
        *(_resnet(batch, tiny) for batch in ((1, 2) if tiny else (1, 32, 128))),
        *(_bert(batch, tiny) for batch in ((1, 2) if tiny else (1, 8, 32))),
        *(_quantised(_resnet(batch, tiny), _resnet(2, tiny)) for batch in ((1, 2) if tiny else (1, 32, 128))),
        *(_quantised(_bert(batch, tiny), _bert(2, tiny)) for batch in ((1, 2) if tiny else (1, 8, 32))),
        *(_product(m, "float16", tiny) for m in ((1, 16) if tiny else (1, 16, 128, 1024, 4096))),
        _product(16 if tiny else 1024, "float32", tiny),
        memory("Add", "float16", flat, inputs=2),
        memory("Sigmoid", "float16", flat),
        *(_elementwise(dtype, rows, tiny) for dtype, rows in (("float16", 1), ("float16", 32768), ("float32", 16384))),
        *(memory("Softmax", dtype, shape, axis=-1) for dtype, shape in rows),
        *(memory("LayerNormalization", dtype, shape, **norm) for dtype, shape in (*rows, *long_rows)),
        memory("SkipLayerNormalization", "float16", (16384, 4096), inputs=2, **skip),
        memory("Transpose", "float16", (8192, 8192), perm=[1, 0]),
        memory("Transpose", "float16", (16, 32, 2048, 64), perm=[0, 2, 1, 3]),
    )


def from_file(text: str) -> Case:
    """A model that lies in a file, `MODEL.onnx@batch=8,seq=128`, with random inputs; the dimensions it leaves open."""
    name, _, dims = text.partition("@")
    path, values = Path(name), parse_dims(dims.split(",") if dims else [])

    def feeds() -> Feeds:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return random_feeds(session.get_inputs(), values, {}, 5)

    axes: dict[str, str | int] = {"model": path.name, "dtype": "float16", **values}
    return Case(
        "/".join([path.stem, *(f"{key}{value}" for key, value in values.items())]),
        "model",
        axes,
        lambda _: onnx.load(path),
        feeds,
        tolerance=2e-2,
        twin=False,
        model_key=path.stem,
    )


def select(cases: Iterable[Case], patterns: str) -> list[Case]:
    """Cases whose name or group matches one of the comma-separated patterns (`resnet50*,host`); ValueError if none."""
    wanted = patterns.split(",")
    found = [case for case in cases if any(fnmatch.fnmatch(case.name, p) or case.group == p for p in wanted)]
    if not found:
        raise ValueError(f"no case matches {patterns}")
    return found
