"""A bound case with its values: what the driver, the host and the references are given."""

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .case import BoundCase
from .driver import NodeSpec, Row
from .dtypes import code_of, name_of, to_storage
from .inputs import changed, materialize

SEED_VARIABLE = "CUDAEP_TEST_SEED"  # shifts all seeds, for long runs
SEED_STEP = 100_000  # by how much

_IR_VERSION = 10  # the oldest host we support reads it, and all types of the tables exist in it


@dataclass(frozen=True)
class BoundNode:
    """A node and its two sets of input values; those that a plan depends on are the same in both."""

    bound: BoundCase
    seed: int
    attrs: Mapping[str, Any]
    first: list[np.ndarray | None]
    second: list[np.ndarray | None]
    outputs: list[str]

    def spec(self) -> NodeSpec:
        """The node for the driver."""
        case, schema = self.bound.case, self.bound.schema
        return NodeSpec(case.domain, case.op, schema.since, self.attrs, self.first, self.second, self.outputs,
                        frozenset(case.constants), case.options)  # fmt: skip


def default_seed(bound: BoundCase) -> int:
    """The seed of a case: fixed by its id and CUDAEP_TEST_SEED."""
    return zlib.crc32(bound.id.encode()) % SEED_STEP + SEED_STEP * int(os.environ.get(SEED_VARIABLE, "0"))


def make_node(bound: BoundCase, seed: int, row: Row | None) -> BoundNode:
    """Draws the values of a case."""
    case = bound.case
    fixed = {*case.constants, *(row.host_inputs if row else ())}
    generator = np.random.default_rng(seed)
    first = [materialize(spec, bound.dtype, generator) for spec in case.inputs]
    second = [
        values if index in fixed else changed(spec, values, bound.dtype, generator)
        for index, (spec, values) in enumerate(zip(case.inputs, first, strict=True))
    ]
    outputs = bound.output_types() if case.error is None else _types_or_first(bound)
    return BoundNode(bound, seed, _attributes(bound), first, second, outputs)


def one_node_model(
    node: BoundNode, inputs: list[np.ndarray | None], outputs: list[str], static: bool = False
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of just this node, and its feeds. Shapes are open unless `static`; constants become initializers."""
    case, schema = node.bound.case, node.bound.schema
    names = ["" if values is None else f"x{index}" for index, values in enumerate(inputs)]
    results = [f"y{index}" if dtype else "" for index, dtype in enumerate(outputs)]
    feeds: dict[str, np.ndarray] = {}
    initializers, formals = [], []
    for index, (name, values) in enumerate(zip(names, inputs, strict=True)):
        if values is None:
            continue
        code = code_of(name_of(values))
        if index in case.constants:
            initializers.append(helper.make_tensor(name, code, values.shape, to_storage(values).tobytes(), raw=True))
            continue
        open_dims = None if case.error else [f"{name}_{axis}" for axis in range(values.ndim)]
        formals.append(helper.make_tensor_value_info(name, code, list(values.shape) if static else open_dims))
        feeds[name] = values
    one = helper.make_node(case.op, _trim(names), _trim(results), name="test", domain=case.domain)
    for name, value in node.attrs.items():
        kind = schema.attributes.get(name)  # an empty list has none of its own
        number = onnx.AttributeProto.AttributeType.Value(kind) if kind else None
        if isinstance(value, np.ndarray):
            value = helper.make_tensor(
                name, code_of(name_of(value)), value.shape, to_storage(value).tobytes(), raw=True
            )
        one.attribute.append(helper.make_attribute(name, value, attr_type=number))
    used = [helper.make_tensor_value_info(name, code_of(dtype), None)
            for name, dtype in zip(results, outputs, strict=True) if name]  # fmt: skip
    graph = helper.make_graph([one], "case", formals, used, initializers)
    versions = {"": max(schema.since, 7) if case.domain == "" else 21}
    if case.domain:
        versions[case.domain] = schema.since
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION), feeds


def _trim(names: list[str]) -> list[str]:
    while names and not names[-1]:
        names = names[:-1]
    return names


def _types_or_first(bound: BoundCase) -> list[str]:
    """Output types of a case that fails anyway: where they cannot be told, that of the first input."""
    try:
        return bound.output_types()
    except ValueError:
        return [bound.input_type(0)]


def _attributes(bound: BoundCase) -> dict[str, Any]:
    """Attribute values in the kinds that the schema declares."""
    return {name: _convert(value, bound.schema.attributes.get(name)) for name, value in bound.case.attrs.items()}


def _convert(value: Any, kind: str | None) -> Any:
    match kind:
        case "INT":
            return int(value)
        case "FLOAT":
            return float(np.float32(value))  # as a model holds it
        case "INTS":
            return [int(one) for one in value]
        case "FLOATS":
            return [float(np.float32(one)) for one in value]
        case _:
            return int(value) if isinstance(value, bool) else list(value) if isinstance(value, tuple) else value
