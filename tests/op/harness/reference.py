"""The values that a case expects."""

import dataclasses
import functools
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

from .dtypes import COMPLEX, NARROW, is_float, name_of
from .node import BoundNode, one_node_model


def expected_outputs(node: BoundNode, inputs: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """The reference outputs for `inputs`; None for outputs that nobody uses."""
    reference = node.bound.case.expected
    with np.errstate(all="ignore"):
        if callable(reference):
            result = reference(*[_widen(values) for values in inputs], **node.attrs)
        elif reference == "ort_cpu":
            result = _run_model(node, inputs, on_host=True)
        else:
            result = _run_model(node, inputs, on_host=False)
    values = list(result) if isinstance(result, tuple | list) else [result]
    if len(values) < len(node.outputs):
        raise ValueError(f"{node.bound.id}: the reference gives {len(values)} of {len(node.outputs)} outputs")
    return [np.asarray(v) if dtype else None for v, dtype in zip(values, node.outputs, strict=False)]


def magnitudes(node: BoundNode, inputs: list[np.ndarray | None]) -> list[Any]:
    """For each output what its terms add up to without their signs; 0 where the case does not say."""
    given = node.bound.case.magnitude
    if given is None:
        return [0.0] * len(node.outputs)
    if callable(given):
        with np.errstate(all="ignore"):
            result = given(*[_widen(values) for values in inputs], **node.attrs)
    else:
        floats = [np.abs(x) if x is not None and is_float(name_of(x)) else x for x in inputs]
        attrs = {name: abs(value) if isinstance(value, float) else value for name, value in node.attrs.items()}
        result = expected_outputs(dataclasses.replace(node, attrs=attrs), floats)
    return [*result, *[0.0] * len(node.outputs)] if isinstance(result, tuple | list) else [result] * len(node.outputs)


def _widen(values: np.ndarray | None) -> np.ndarray | None:
    if values is None:
        return None
    name = name_of(values)
    return values.astype(np.float64 if is_float(name) else np.complex128 if name in COMPLEX else values.dtype)


def _single(values: np.ndarray | None) -> np.ndarray | None:
    return values.astype(np.float32) if values is not None and name_of(values) in NARROW else values


def _run_model(node: BoundNode, inputs: list[np.ndarray | None], on_host: bool) -> tuple[Any, ...]:
    """The one-node model on another implementation, 16-bit floats in float32."""
    wide = [_single(values) for values in inputs]
    outputs = ["float32" if name in NARROW else name for name in node.outputs]
    model, feeds = one_node_model(node, wide, outputs)
    if on_host:
        session = ort.InferenceSession(model.SerializeToString(), _host_options(), providers=["CPUExecutionProvider"])
        results = session.run(None, feeds)
    else:
        results = ReferenceEvaluator(model).run(None, feeds)
    left = iter(results)
    return tuple(next(left) if name else None for name in outputs)


@functools.cache
def _host_options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options
