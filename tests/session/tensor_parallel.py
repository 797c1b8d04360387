"""A decoder layer like Llama's, divided among ranks: each has a part of the heads and of the hidden units.

Q, K, V, gate and up are divided by columns, so that a rank computes its own heads and units from the whole input; out
and down by rows, so that what the ranks compute adds up (AllReduce) to the whole output.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.session.collective_models import DOMAIN, serialized

HIDDEN, HEADS, HEAD, UNITS, LENGTH = 64, 4, 16, 96, 9


def weights() -> dict[str, np.ndarray]:
    """Of the whole layer."""
    generator = np.random.default_rng(5)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (generator.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    return {
        **{name: matrix(HIDDEN, HEADS * HEAD) for name in ("q", "k", "v")},
        "out": matrix(HEADS * HEAD, HIDDEN),
        **{name: matrix(HIDDEN, UNITS) for name in ("gate", "up")},
        "down": matrix(UNITS, HIDDEN),
        **{name: (1 + generator.standard_normal(HIDDEN) / 10).astype(np.float32) for name in ("norm1", "norm2")},
    }


def part(name: str, weight: np.ndarray, rank: int, size: int) -> np.ndarray:
    """What a rank holds of a weight."""
    if name.startswith("norm"):
        return weight
    return np.ascontiguousarray(np.split(weight, size, axis=0 if name in ("out", "down") else 1)[rank])


class _Layer:
    def __init__(self, size: int) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.size = size

    def add(self, op: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = value
        return name

    def norm(self, x: str, weight: str) -> str:
        square = self.add("Mul", [x, x], f"{weight}_square")
        mean = self.add("ReduceMean", [square], f"{weight}_mean", axes=[-1], keepdims=1)
        epsilon = self.add("Add", [mean, self.constant("epsilon", np.array(1e-6, np.float32))], f"{weight}_epsilon")
        root = self.add("Sqrt", [epsilon], f"{weight}_root")
        return self.add("Mul", [self.add("Div", [x, root], f"{weight}_unit"), weight], f"{weight}_normed")

    def heads(self, x: str, name: str, rotate: bool) -> str:
        shape = self.constant("heads_shape", np.array([0, 0, -1, HEAD], np.int64))
        split = self.add("Reshape", [self.add("MatMul", [x, name], f"{name}_flat"), shape], f"{name}_split")
        y = self.add("Transpose", [split], f"{name}_heads", perm=[0, 2, 1, 3])
        if not rotate:
            return y
        axes, ends = self.constant("last", np.array([-1])), [0, HEAD // 2, HEAD]
        halves = [
            self.add("Slice", [y, *(self.constant(f"at{end}", np.array([end])) for end in ends[i : i + 2]), axes],
                     f"{name}_half{i}")
            for i in range(2)
        ]  # fmt: skip
        turned = self.add("Concat", [self.add("Neg", [halves[1]], f"{name}_negative"), halves[0]], f"{name}_turned",
                          axis=-1)  # fmt: skip
        return self.add(
            "Add",
            [self.add("Mul", [y, "cos"], f"{name}_cos"), self.add("Mul", [turned, "sin"], f"{name}_sin")],
            f"{name}_rotated",
        )

    def attend(self, x: str) -> str:
        q, k, v = (self.heads(x, name, rotate=name != "v") for name in ("q", "k", "v"))
        turned = self.add("Transpose", [k], "k_columns", perm=[0, 1, 3, 2])
        scale = self.constant("scale", np.array(HEAD**-0.5, np.float32))
        scores = self.add("Mul", [self.add("MatMul", [q, turned], "products"), scale], "scores")
        shares = self.add("Softmax", [self.add("Add", [scores, "mask"], "masked")], "shares", axis=-1)
        mixed = self.add("Transpose", [self.add("MatMul", [shares, v], "mixed")], "mixed_rows", perm=[0, 2, 1, 3])
        joined = self.add("Reshape", [mixed, self.constant("joined_shape", np.array([0, 0, -1]))], "joined")
        return self.together(self.add("MatMul", [joined, "out"], "out_part"), "out_all")

    def feed_forward(self, x: str) -> str:
        gate, up = (self.add("MatMul", [x, name], f"{name}_units") for name in ("gate", "up"))
        active = self.add("Mul", [gate, self.add("Sigmoid", [gate], "sigmoid")], "silu")
        return self.together(
            self.add("MatMul", [self.add("Mul", [active, up], "gated"), "down"], "down_part"), "down_all"
        )

    def together(self, x: str, output: str) -> str:
        return x if self.size == 1 else self.add("AllReduce", [x], output, domain=DOMAIN, group_size=self.size)


def decoder_layer(rank: int, size: int) -> bytes:
    """A rank's model; with size 1 the whole layer without collectives. x: [batch, LENGTH, HIDDEN]."""
    layer = _Layer(size)
    angles = np.outer(np.arange(LENGTH), 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD))
    angles = np.concatenate([angles, angles], axis=-1)
    layer.constant("cos", np.cos(angles).astype(np.float32))
    layer.constant("sin", np.sin(angles).astype(np.float32))
    layer.constant("mask", np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))
    for name, weight in weights().items():
        layer.constant(name, part(name, weight, rank, size))
    middle = layer.add("Add", ["x", layer.attend(layer.norm("x", "norm1"))], "middle")
    layer.add("Add", [middle, layer.feed_forward(layer.norm(middle, "norm2"))], "y")
    rows = ["batch", LENGTH, HIDDEN]
    graph = helper.make_graph(
        layer.nodes,
        "decoder_layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, rows)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, rows)],
        [numpy_helper.from_array(value, name) for name, value in layer.constants.items()],
    )
    return serialized(graph)
