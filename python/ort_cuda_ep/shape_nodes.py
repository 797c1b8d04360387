"""Which nodes of a model only compute shapes: they may run on the CPU, all others are compute nodes.

The rule follows the plug-in's placement: start at Shape and Size nodes and small constants and grow forward over nodes
all of whose inputs are such values. Graph inputs never start it; a model made of nothing else has no shape nodes.
"""

import math

import onnx

_SEEDS = {"Shape", "Size"}
_SMALL_ELEMS = 1024


def find_shape_nodes(model: onnx.ModelProto) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the shape nodes, and operator types whose unnamed nodes are all shape nodes, of the main graph."""
    host_values = {tensor.name for tensor in model.graph.initializer if math.prod(tensor.dims) <= _SMALL_ELEMS} | {""}
    names: set[str] = set()
    unnamed: dict[str, bool] = {}
    compute_nodes = 0
    for node in model.graph.node:
        is_shape = node.op_type in _SEEDS or _is_small_constant(node) or _has_only(node, host_values)
        compute_nodes += not is_shape
        if is_shape:
            host_values.update(node.output)
        if not node.name:
            unnamed[node.op_type] = unnamed.get(node.op_type, True) and is_shape
        elif is_shape:
            names.add(node.name)
    if compute_nodes == 0:
        return frozenset(), frozenset()
    return frozenset(names), frozenset(op_type for op_type, all_shape in unnamed.items() if all_shape)


def _has_only(node: onnx.NodeProto, host_values: set[str]) -> bool:
    subgraph = any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute)
    return bool(node.input) and not subgraph and all(name in host_values for name in node.input)


def _is_small_constant(node: onnx.NodeProto) -> bool:
    if node.op_type != "Constant":
        return False
    return all(math.prod(a.t.dims) <= _SMALL_ELEMS for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)
