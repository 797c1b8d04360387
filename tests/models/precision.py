"""A float32 model with another float type throughout: what users convert before they serve.

Where a schema has no such type (NonMaxSuppression's boxes, Resize's scales) the node keeps float32 between casts, as
converters do it.
"""

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

from .weights import Feeds

NUMPY = {TensorProto.FLOAT16: np.dtype(np.float16), TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}
_TYPE_NAMES = {TensorProto.FLOAT16: "tensor(float16)", TensorProto.BFLOAT16: "tensor(bfloat16)"}
_BFLOAT16_OPSET = 22  # the first in which convolution and pooling have the type


def convert(model: onnx.ModelProto, kind: int) -> onnx.ModelProto:
    """A copy of `model` whose floats are of type `kind`. Inputs and outputs are, too."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if kind == TensorProto.BFLOAT16 and _opset(copy, "") < _BFLOAT16_OPSET:
        copy = version_converter.convert_version(copy, _BFLOAT16_OPSET)
    inferred = onnx.shape_inference.infer_shapes(copy)
    _Converter(copy, kind).graph(copy.graph, inferred.graph, {})
    return copy


def convert_feeds(feeds: Feeds, kind: int) -> Feeds:
    """Inputs for it."""
    return [
        {name: array.astype(NUMPY[kind]) if array.dtype == np.float32 else array for name, array in feed.items()}
        for feed in feeds
    ]


def _opset(model: onnx.ModelProto, domain: str) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in (domain, domain or "ai.onnx")), 1)


class _Converter:
    def __init__(self, model: onnx.ModelProto, kind: int) -> None:
        self._model, self._kind, self._casts = model, kind, 0

    def graph(self, graph: onnx.GraphProto, inferred: onnx.GraphProto, outer: dict[str, int]) -> None:
        """Converts a graph; `outer` has the types of values of the graphs around it."""
        types = outer | {
            value.name: value.type.tensor_type.elem_type
            for value in (*inferred.value_info, *inferred.input, *inferred.output)
        }
        types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        for tensor in graph.initializer:
            self._tensor(tensor)
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = self._kind
        nodes: list[onnx.NodeProto] = []
        for node, twin in zip(graph.node, inferred.node, strict=True):
            self._attributes(node, twin, types)
            self._node(node, types, nodes)
        del graph.node[:]
        graph.node.extend(nodes)

    def _tensor(self, tensor: TensorProto) -> None:
        if tensor.data_type == TensorProto.FLOAT:
            wide = numpy_helper.to_array(tensor)
            # The lowest float32, with which masks are made, stays finite, as converters have it.
            largest = float(ml_dtypes.finfo(NUMPY[self._kind]).max)
            finite = np.where(np.isfinite(wide), np.clip(wide, -largest, largest), wide)
            values = finite.astype(NUMPY[self._kind])
            name = tensor.name
            tensor.CopyFrom(TensorProto(name=name, dims=tensor.dims, data_type=self._kind, raw_data=values.tobytes()))

    def _attributes(self, node: onnx.NodeProto, twin: onnx.NodeProto, types: dict[str, int]) -> None:
        if node.op_type == "ConstantOfShape" and not node.attribute:  # float32 without a word
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1, np.float32))))
            twin.attribute.append(node.attribute[0])
        if node.op_type == "SequenceEmpty" and not node.attribute:
            node.attribute.append(helper.make_attribute("dtype", TensorProto.FLOAT))
            twin.attribute.append(node.attribute[0])
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name in ("value_float", "value_floats"):
                    values = np.float32(attribute.f) if attribute.name == "value_float" else attribute.floats
                    tensor = numpy_helper.from_array(np.asarray(values, np.float32))
                    attribute.CopyFrom(helper.make_attribute("value", tensor))
        for attribute, twin_attribute in zip(node.attribute, twin.attribute, strict=True):
            if attribute.HasField("t"):
                self._tensor(attribute.t)
            if attribute.HasField("g"):
                self.graph(attribute.g, twin_attribute.g, types)
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == TensorProto.FLOAT:
                attribute.i = self._kind

    def _node(self, node: onnx.NodeProto, types: dict[str, int], nodes: list[onnx.NodeProto]) -> None:
        """Appends a node to `nodes`, between casts where its schema lacks the type."""
        schema = onnx.defs.get_schema(node.op_type, _opset(self._model, node.domain), node.domain)
        before = [self._lacks(schema, schema.inputs, i, types.get(name)) for i, name in enumerate(node.input)]
        after = [self._lacks(schema, schema.outputs, i, types.get(name)) for i, name in enumerate(node.output)]
        for i, name in enumerate(node.input):
            if before[i]:
                node.input[i] = self._cast(name, f"{name}.float.{self._next()}", TensorProto.FLOAT, nodes)
        nodes.append(node)
        for i, name in enumerate(node.output):
            if after[i]:
                node.output[i] = f"{name}.float.{self._next()}"
                self._cast(node.output[i], name, self._kind, nodes)

    def _lacks(self, schema: onnx.defs.OpSchema, formal: list[onnx.defs.OpSchema.FormalParameter], i: int,
               kind: int | None) -> bool:  # fmt: skip
        parameter = formal[min(i, len(formal) - 1)]
        return kind == TensorProto.FLOAT and _TYPE_NAMES[self._kind] not in parameter.types

    def _cast(self, source: str, target: str, kind: int, nodes: list[onnx.NodeProto]) -> str:
        nodes.append(helper.make_node("Cast", [source], [target], f"cast.{self._next()}", to=kind))
        return target

    def _next(self) -> int:
        self._casts += 1
        return self._casts
