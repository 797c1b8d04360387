"""The one-node model of a drawn case, and the feeds it is run with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper

from tests.op.harness import schemas
from tests.op.harness.driver import Row
from tests.op.harness.dtypes import code_of, name_of, to_storage

from .draw import Draw, Node

_IR_VERSION = 10
_CONSTANT = 0.2  # of the cases with one input have another as an initializer
_FEEDS = 2

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class OpCase:
    """A node, its model and its feeds."""

    name: str  # "domain.op/number", "op/number" for ONNX's own
    version: int
    node: Node
    model: onnx.ModelProto
    feeds: list[Feeds]
    deterministic: bool

    def __str__(self) -> str:
        inputs = ("; ".join(f"{name_of(array)}{list(array.shape)}" for array in feeds.values()) for feeds in self.feeds)
        constants = [f"{tensor.name}={_short(tensor)}" for tensor in self.model.graph.initializer]
        attrs = {name: _text(value) for name, value in self.node.attrs.items()}
        return f"version {self.version} {attrs or ''} {' | '.join(inputs)} {' '.join(constants)}".strip()


def make(name: str, spec: Callable[[Draw], Node], rows: Sequence[Row]) -> OpCase:
    """The case of a name."""
    number = int(name.rsplit("/", 1)[1])
    draws = [Draw(rows, number, feed) for feed in range(_FEEDS)]
    nodes = [_plain(spec(draw)) for draw in draws]
    draw, node = draws[0], nodes[0]
    used = [index for index, array in enumerate(node.inputs) if array is not None]
    constants = set(node.constants & set(used))
    if draw.chance(0.4):  # never all of them: the host would compute the node itself
        constants |= {index for index in used if draw.chance(_CONSTANT / 0.4)}
        constants -= set(used) - node.constants if constants == set(used) else set()
    alike = [other for other in nodes[1:] if _same_node(node, other, constants)] if draw.chance(0.5) else []
    kept = [node, *alike]
    feeds = [
        {f"x{index}": array for index, array in enumerate(one.inputs) if array is not None and index not in constants}
        for one in kept
    ]
    model = _model(draw, node, constants, feeds)
    return OpCase(name, draw.version, node, model, feeds, deterministic=draw.chance(0.15))


def _plain(node: Node) -> Node:
    """With arrays that are contiguous and no scalars of numpy's, and attributes as a model holds them."""
    attrs = {
        name: float(np.float32(value)) if isinstance(value, float) else value for name, value in node.attrs.items()
    }
    return replace(node, attrs=attrs, inputs=[None if a is None else np.array(a, order="C") for a in node.inputs])


def _same_node(one: Node, other: Node, constants: set[int]) -> bool:
    """Whether a second draw differs in dimensions and values of fed inputs alone."""
    if len(one.inputs) != len(other.inputs) or repr(one.attrs) != repr(other.attrs) or one.outputs != other.outputs:
        return False
    for index, (a, b) in enumerate(zip(one.inputs, other.inputs, strict=True)):
        if (a is None) != (b is None):
            return False
        if a is None or b is None:
            continue
        if a.dtype != b.dtype or a.ndim != b.ndim or (index in constants and not np.array_equal(a, b)):
            return False
    return True


def _model(draw: Draw, node: Node, constants: set[int], feeds: list[Feeds]) -> onnx.ModelProto:
    kind = draw.pick(["static", "dynamic", "mixed", "unknown"])
    inputs = [
        helper.make_tensor_value_info(name, code_of(name_of(array)), _dims(draw, kind, name, feeds))
        for name, array in feeds[0].items()
    ]
    names = ["" if array is None else f"x{index}" for index, array in enumerate(node.inputs)]
    results = [f"y{index}" if used else "" for index, used in enumerate(node.outputs)]
    one = helper.make_node(draw.row.op, _trim(names), _trim(results), name="test", domain=draw.row.domain)
    one.attribute.extend(_attribute(draw, name, value) for name, value in node.attrs.items())
    values = [_tensor(f"x{index}", node.inputs[index]) for index in sorted(constants)]
    outputs = [onnx.ValueInfoProto(name=name) for name in results if name]
    graph = helper.make_graph([one], "case", inputs, outputs, values)
    return helper.make_model(graph, opset_imports=_imports(draw), ir_version=_IR_VERSION)


def _dims(draw: Draw, kind: str, name: str, feeds: list[Feeds]) -> list[int | str] | None:
    """What the model says of an input's shape; a dimension that differs between feeds is open."""
    if kind == "unknown":
        return None
    shapes = [feed[name].shape for feed in feeds]
    open_ = [kind == "dynamic" or (kind == "mixed" and draw.chance(0.5)) for _ in shapes[0]]
    return [
        f"{name}_{axis}" if open_[axis] or len(set(dims)) > 1 else int(dims[0])
        for axis, dims in enumerate(zip(*shapes, strict=True))
    ]


def _imports(draw: Draw) -> list[onnx.OperatorSetIdProto]:
    """The first or the last opset that has the version; contrib operators stand in a model of a middle one."""
    if draw.row.domain:
        return [helper.make_opsetid("", 21), helper.make_opsetid(draw.row.domain, draw.version)]
    later = [version for version in schemas.versions("", draw.row.op) if version > draw.version]
    last = later[0] - 1 if later else schemas.NEWEST_OPSET
    return [helper.make_opsetid("", draw.pick([max(draw.version, 7), last]))]


def _attribute(draw: Draw, name: str, value: Any) -> onnx.AttributeProto:
    kind = draw.schema.attributes.get(name)  # an empty list has none of its own
    number = onnx.AttributeProto.AttributeType.Value(kind) if kind else None
    return helper.make_attribute(
        name, _tensor(name, value) if isinstance(value, np.ndarray) else value, attr_type=number
    )


def _tensor(name: str, array: np.ndarray | None) -> onnx.TensorProto:
    assert array is not None
    return helper.make_tensor(name, code_of(name_of(array)), array.shape, to_storage(array).tobytes(), raw=True)


def _trim(names: list[str]) -> list[str]:
    while names and not names[-1]:
        names = names[:-1]
    return names


def widened(case: OpCase, types: Sequence[str], target: str) -> tuple[onnx.ModelProto, Feeds]:
    """The model with `target` in place of some floating point types, and values of constants that became inputs."""
    wide, values = onnx.ModelProto(), dict[str, np.ndarray]()
    wide.CopyFrom(case.model)
    kept = {f"x{index}" for index in case.node.keep}
    codes = {code_of(name) for name in types}
    for entry in wide.graph.input:
        if entry.name not in kept and entry.type.tensor_type.elem_type in codes:
            entry.type.tensor_type.elem_type = code_of(target)
    del wide.graph.initializer[:]
    for tensor in case.model.graph.initializer:
        if tensor.name in kept or tensor.data_type not in codes:
            wide.graph.initializer.append(tensor)
            continue
        values[tensor.name] = onnx.numpy_helper.to_array(tensor)
        wide.graph.input.append(helper.make_tensor_value_info(tensor.name, code_of(target), list(tensor.dims)))
    return wide, widened_feeds(case, values, types, target)


def widened_feeds(case: OpCase, feeds: Feeds, types: Sequence[str], target: str) -> Feeds:
    """Feeds of such a model."""
    kept = {f"x{index}" for index in case.node.keep}
    with np.errstate(all="ignore"):
        return {
            name: array.astype(target) if name_of(array) in types and name not in kept else array
            for name, array in feeds.items()
        }


def perturbed(feeds: Feeds, name: str, step: float, seed: int) -> Feeds:
    """Feeds with each value of one input larger or smaller by the part `step` of itself."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], feeds[name].shape)
    with np.errstate(all="ignore"):
        return {**feeds, name: np.asarray(feeds[name] * (1 + step * signs), feeds[name].dtype)}


def _short(tensor: onnx.TensorProto) -> str:
    array = onnx.numpy_helper.to_array(tensor)
    return str(array.tolist()) if array.size < 9 else f"{array.dtype.name}{list(array.shape)}"


def _text(value: Any) -> Any:
    return f"{name_of(value)} {value.reshape(-1).tolist()}" if isinstance(value, np.ndarray) else value
