"""Networks of float16 images under construction: convolutions and what stands between them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

CHANNELS = 16


class Images:
    """A network of float16 images under construction; values are names, with their channels and size in `shapes`."""

    def __init__(self, seed: int, channels: int = CHANNELS, size: int = 8, opset: int = 18) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.opset = opset
        self.x = (channels, size)
        self.shapes: dict[str, tuple[int, int]] = {"x": self.x}

    def constant(self, values: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = values
        return name

    def random(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float16))

    def add(self, op: str, inputs: list[str], shape: tuple[int, int] | None = None, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        self.shapes[name] = shape or self.shapes.get(inputs[0], (0, 0))
        return name

    def conv(self, x: str, to: int = CHANNELS, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        channels, size = self.shapes[x]
        w = self.random(to, channels // group, kernel, kernel, scale=(channels // group * kernel * kernel) ** -0.5)
        pads = [kernel // 2] * 4
        strides = [stride, stride]
        shape = (to, (size - 1) // stride + 1)
        return self.add("Conv", [x, w, self.random(to)], shape, pads=pads, strides=strides, group=group)

    def split(self, x: str, parts: list[str]) -> None:
        """Equal parts of the channels, by their names."""
        channels, size = self.shapes[x]
        self.nodes.append(helper.make_node("Split", [x], parts, parts[0], axis=1, num_outputs=len(parts)))
        self.shapes.update((part, (channels // len(parts), size)) for part in parts)

    def model(self, outputs: list[str], kind: int) -> bytes:
        """In float16, bfloat16 or float32; constants are numbers that float16 has."""
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        floats = {np.dtype(np.float16): dtype}
        constants = [
            numpy_helper.from_array(v.astype(floats.get(v.dtype, v.dtype)), name) for name, v in self.constants.items()
        ]
        graph = helper.make_graph(
            self.nodes,
            "images",
            [helper.make_tensor_value_info("x", kind, ["n", self.x[0], self.x[1], self.x[1]])],
            [helper.make_tensor_value_info(name, kind, None) for name in outputs],
            constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        return bytes(made.SerializeToString())
