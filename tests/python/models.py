"""Small models for tests of the Python package."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_reshape_model(path: Path) -> Path:
    """y = reshape(2 * x, [dim0(x), -1]), with the new shape computed by Shape, Gather and Concat."""
    constants = {
        "two": np.float32(2),
        "zero": np.array([0], np.int64),
        "minus_one": np.array([-1], np.int64),
    }
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["doubled"], "double"),
        helper.make_node("Shape", ["x"], ["dims"], "shape"),
        helper.make_node("Gather", ["dims", "zero"], ["batch"], "gather"),
        helper.make_node("Concat", ["batch", "minus_one"], ["new_dims"], "concat", axis=0),
        helper.make_node("Reshape", ["doubled", "new_dims"], ["y"], "reshape"),
    ]
    graph = helper.make_graph(
        nodes,
        "reshape",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", None])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def _save(path: Path, nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray] | None = None) -> Path:
    """Float matrix x to float y, each of any size."""
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _text_and_back(value: str, result: str) -> list[onnx.NodeProto]:
    """Two casts through strings, which no GPU provider has kernels for."""
    return [
        helper.make_node("Cast", [value], [f"{value}_text"], "to_text", to=TensorProto.STRING),
        helper.make_node("Cast", [f"{value}_text"], [result], "", to=TensorProto.FLOAT),
    ]


def save_mixed_model(path: Path) -> Path:
    """An Add and a Relu on the provider around two casts that are not, and a node of shapes that nobody has."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["sum"], "add"),
        *_text_and_back("sum", "back"),
        helper.make_node("Relu", ["back"], ["relu"], "relu"),
        helper.make_node("Shape", ["relu"], ["dims"], "shape"),
        helper.make_node("CumSum", ["dims", "zero"], ["sums"], "sums"),
        helper.make_node("Gather", ["sums", "first"], ["rows"], "rows"),
        helper.make_node("Concat", ["rows", "minus_one"], ["new_dims"], "new_dims", axis=0),
        helper.make_node("Reshape", ["relu", "new_dims"], ["y"], "reshape"),
    ]
    constants = {"zero": np.int64(0), "first": np.array([0], np.int64), "minus_one": np.array([-1], np.int64)}
    return _save(path, nodes, constants)


def save_text_model(path: Path) -> Path:
    """Nothing of it can be on the provider."""
    return _save(path, _text_and_back("x", "y"))


def save_function_model(path: Path) -> Path:
    """Two calls of a function of the model's own, which the host replaces by the function's Add."""
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    calls = [
        helper.make_node("Twice", ["x"], ["doubled"], "first", domain="own"),
        helper.make_node("Twice", ["doubled"], ["y"], "second", domain="own"),
    ]
    model = onnx.load(_save(path, calls))
    del model.opset_import[:]
    model.opset_import.extend(imports)
    model.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, imports[:1]))
    onnx.save(model, path)
    return path


def save_branch_model(path: Path) -> Path:
    """An If whose first branch has the casts, and whose second has an Add."""
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    add = helper.make_node("Add", ["x", "x"], ["b"], "add")
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], "largest", keepdims=0),
        helper.make_node("Cast", ["largest"], ["condition"], "condition", to=TensorProto.BOOL),
        helper.make_node(
            "If",
            ["condition"],
            ["y"],
            "branch",
            then_branch=helper.make_graph(_text_and_back("x", "b"), "branch", [], [out]),
            else_branch=helper.make_graph([add], "branch", [], [out]),
        ),
    ]
    return _save(path, nodes)


def save_fusable_model(path: Path) -> Path:
    """x * sigmoid(x), of which the host makes one QuickGelu."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], "sigmoid"),
        helper.make_node("Mul", ["x", "s"], ["y"], "mul"),
    ]
    return _save(path, nodes)


def save_regions_model(path: Path) -> Path:
    """Two convolutions with sums, one of them with an activation; casts through strings; a reshape by a shape."""
    weights = {f"w{i}": np.full((4, 4, 3, 3), 0.1 * (i + 1), np.float32) for i in range(2)}
    constants = {"two": np.float32(2), "zero": np.array([0], np.int64), "minus_one": np.array([-1], np.int64)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["a", "x"], ["b"], "add"),
        helper.make_node("Relu", ["b"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "w1"], ["s"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["s", "z"], ["c"], "spread"),
        *_text_and_back("c", "back"),
        helper.make_node("Mul", ["back", "two"], ["doubled"], "double"),
        helper.make_node("Shape", ["back"], ["dims"], "shape"),
        helper.make_node("Gather", ["dims", "zero"], ["batch"], "gather"),
        helper.make_node("Concat", ["batch", "minus_one"], ["new_dims"], "concat", axis=0),
        helper.make_node("Reshape", ["doubled", "new_dims"], ["y"], "reshape"),
    ]
    _save(path, nodes, weights | constants)
    model = onnx.load(path)
    del model.graph.input[:]
    for name, batch in (("x", "n"), ("z", 1)):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 4, 8, 8]))
    onnx.save(model, path)
    return path
