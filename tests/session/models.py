"""Small models for session tests, as serialized bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Dims]],
    outputs: dict[str, tuple[int, Dims | None]],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> bytes:
    """A model of `nodes`; inputs and outputs map names to (element type, dims)."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    imports = [
        helper.make_opsetid("", opset),
        helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("ai.onnx.ml", 3),
    ]
    proto: onnx.ModelProto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    return bytes(proto.SerializeToString())


def add_chain(length: int, constant: bool = False) -> bytes:
    """`length` Add nodes in a row over float vectors of any length: out = x + length * b.

    constant: b is an initializer of four ones instead of an input.
    """
    nodes = [helper.make_node("Add", [f"v{i}", "b"], [f"v{i + 1}"], name=f"add{i}") for i in range(length)]
    vector: tuple[int, Dims] = (TensorProto.FLOAT, ["n"])
    if constant:
        return model(nodes, {"v0": vector}, {f"v{length}": vector}, {"b": np.ones(4, np.float32)})
    return model(nodes, {"v0": vector, "b": vector}, {f"v{length}": vector})


def add_then_string() -> bytes:
    """An Add of ours feeding an operator on strings that no GPU provider has."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["y"], name="ours"),
        helper.make_node("Cast", ["y"], ["text"], to=TensorProto.STRING, name="not_ours"),
    ]
    return model(nodes, {"x": (TensorProto.FLOAT, ["n"])}, {"text": (TensorProto.STRING, ["n"])})


def masked_scores() -> bytes:
    """y = softmax(x x^T + mask) (x cos(angles)) for x of [n, length, 8]: mask and angles follow from the length."""
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Gather", ["dims", "one"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["positions"]),
        helper.make_node("Unsqueeze", ["positions", "last"], ["queries"]),
        helper.make_node("LessOrEqual", ["positions", "queries"], ["seen"]),
        helper.make_node("Where", ["seen", "none", "low"], ["mask"]),
        helper.make_node("Cast", ["queries"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "frequencies"], ["angles"]),
        helper.make_node("Cos", ["angles"], ["cos"]),
        helper.make_node("Transpose", ["x"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"]),
        helper.make_node("Mul", ["x", "cos"], ["turned"]),
        helper.make_node("MatMul", ["weights", "turned"], ["y"]),
    ]
    constants: dict[str, np.ndarray] = {
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "last": np.array([-1], np.int64),
        "none": np.array(0, np.float32),
        "low": np.array(-1e9, np.float32),
        "frequencies": (1 / (1 + np.arange(8))).astype(np.float32),
    }
    rows: tuple[int, Dims] = (TensorProto.FLOAT, ["n", "length", 8])
    return model(nodes, {"x": rows}, {"y": rows}, constants)


def product_chain(length: int, size: int = 256) -> bytes:
    """`length` products of float rows [n, size] with weights of their own, 4 * size * size bytes each."""
    rng = np.random.default_rng(0)
    constants = {f"w{i}": rng.standard_normal((size, size), dtype=np.float32) / 16 for i in range(length)}
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"], name=f"product{i}") for i in range(length)]
    rows: tuple[int, Dims] = (TensorProto.FLOAT, ["n", size])
    return model(nodes, {"v0": rows}, {f"v{length}": rows}, constants)


def dense_chain(layers: int, size: int = 64) -> bytes:
    """`layers` times a product of float rows [n, size], a bias and a Relu, as small networks have them."""
    rng = np.random.default_rng(9)
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    for i in range(layers):
        constants[f"w{i}"] = rng.standard_normal((size, size), dtype=np.float32) / np.float32(np.sqrt(size / 2))
        constants[f"b{i}"] = rng.standard_normal(size, dtype=np.float32)
        nodes.append(helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"p{i}"], name=f"product{i}"))
        nodes.append(helper.make_node("Add", [f"p{i}", f"b{i}"], [f"s{i}"], name=f"bias{i}"))
        nodes.append(helper.make_node("Relu", [f"s{i}"], [f"v{i + 1}"], name=f"relu{i}"))
    rows: tuple[int, Dims] = (TensorProto.FLOAT, ["n", size])
    return model(nodes, {"v0": rows}, {f"v{layers}": rows}, constants)


def convolution(channels: int, transposed: bool = False) -> bytes:
    """One 3x3 convolution that keeps its image's size; the column matrix is nine times the image."""
    rng = np.random.default_rng(7)
    constants = {"w": rng.standard_normal((channels, channels, 3, 3), dtype=np.float32) * np.float32(0.05)}
    kind = "ConvTranspose" if transposed else "Conv"
    nodes = [helper.make_node(kind, ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])]
    image: tuple[int, Dims] = (TensorProto.FLOAT, ["n", channels, "h", "w"])
    return model(nodes, {"x": image}, {"y": image}, constants)


def scratch_users(size: int) -> bytes:
    """Rows [n, size], sorted: scratch memory of 16 bytes an element, as long as `size` is a power of two."""
    nodes = [helper.make_node("TopK", ["v0", "k"], ["sorted", "positions"], name="sort")]
    rows: tuple[int, Dims] = (TensorProto.FLOAT, ["n", size])
    return model(nodes, {"v0": rows}, {"sorted": rows}, {"k": np.array([size], np.int64)})


def residual_network(blocks: int = 3, channels: int = 16) -> bytes:
    """Convolutions with batch normalization and skips, a strided one in each block, pooled to 10 classes."""
    rng = np.random.default_rng(1)
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}

    def weights(name: str, *shape: int) -> str:
        constants[name] = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.2)
        return name

    def convolution(x: str, name: str, inputs: int, stride: int) -> str:
        conv = helper.make_node(
            "Conv",
            [x, weights(f"{name}_w", channels, inputs, 3, 3), weights(f"{name}_b", channels)],
            [f"{name}_y"],
            name=name,
            pads=[1, 1, 1, 1],
            strides=[stride, stride],
        )
        norms = [weights(f"{name}_{part}", channels) for part in ("scale", "shift", "mean")]
        constants[f"{name}_var"] = np.ones(channels, np.float32)
        norm = helper.make_node(
            "BatchNormalization", [f"{name}_y", *norms, f"{name}_var"], [f"{name}_n"], name=f"{name}_norm"
        )
        relu = helper.make_node("Relu", [f"{name}_n"], [f"{name}_out"], name=f"{name}_relu")
        nodes.extend((conv, norm, relu))
        return f"{name}_out"

    value = convolution("x", "stem", 3, 1)
    for i in range(blocks):
        down = convolution(value, f"down{i}", channels, 2)
        same = convolution(down, f"same{i}", channels, 1)
        nodes.append(helper.make_node("Add", [down, same], [f"sum{i}"], name=f"skip{i}"))
        value = f"sum{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["pooled"], name="pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"))
    nodes.append(
        helper.make_node("Gemm", ["flat", weights("head_w", channels, 10), weights("head_b", 10)], ["y"], name="head")
    )
    image: tuple[int, Dims] = (TensorProto.FLOAT, ["n", 3, "h", "w"])
    return model(nodes, {"x": image}, {"y": (TensorProto.FLOAT, ["n", 10])}, constants)


def mixer(layers: int = 2, width: int = 32, tokens: int = 8) -> bytes:
    """Normalization, products along tokens and along channels, softmax and movement of data, as transformers have."""
    rng = np.random.default_rng(2)
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {"one": np.ones((), np.float32)}

    def weights(name: str, *shape: int) -> str:
        constants[name] = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.3)
        return name

    def node(kind: str, inputs: list[str], name: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    value = "x"
    for i in range(layers):
        norm = node(
            "LayerNormalization", [value, weights(f"g{i}", width), weights(f"s{i}", width)], f"norm{i}", axis=-1
        )
        turned = node("Transpose", [norm], f"turn{i}", perm=[0, 2, 1])
        mixed = node("MatMul", [turned, weights(f"t{i}", tokens, tokens)], f"tokens{i}")
        weight = node("Softmax", [mixed], f"softmax{i}", axis=-1)
        back = node("Transpose", [weight], f"back{i}", perm=[0, 2, 1])
        value = node("Add", [value, back], f"skip{i}")
        wide = node("MatMul", [value, weights(f"u{i}", width, 2 * width)], f"wide{i}")
        active = node("Sigmoid", [wide], f"active{i}")
        gated = node("Mul", [wide, active], f"gate{i}")
        narrow = node("MatMul", [gated, weights(f"d{i}", 2 * width, width)], f"narrow{i}")
        value = node("Add", [value, narrow], f"sum{i}")
    nodes.append(helper.make_node("Mul", [value, "one"], ["y"], name="last"))
    rows: tuple[int, Dims] = (TensorProto.FLOAT, ["n", tokens, width])
    return model(nodes, {"x": rows}, {"y": rows}, constants)
