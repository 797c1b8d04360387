"""A small image classifier of any image size, for those who bring no model: `python model.py FILE`."""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 10


def classifier() -> bytes:
    """Three convolutions, a mean over the image and a product: x[batch, 3, height, width] to scores[batch, 10]."""
    rng = np.random.default_rng(0)
    nodes, weights, last = [], {}, "x"
    for i, (inputs, outputs) in enumerate([(3, 16), (16, 32), (32, 32)]):
        bound = (9 * inputs) ** -0.5
        weights[f"w{i}"] = rng.uniform(-bound, bound, (outputs, inputs, 3, 3)).astype(np.float32)
        weights[f"b{i}"] = rng.uniform(-bound, bound, outputs).astype(np.float32)
        conv = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
        nodes.append(helper.make_node("Conv", [last, f"w{i}", f"b{i}"], [f"c{i}"], f"conv{i}", **conv))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}"))
        last = f"r{i}"
    weights["w"] = rng.standard_normal((32, CLASSES)).astype(np.float32)
    weights["b"] = rng.standard_normal(CLASSES).astype(np.float32)
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["features"], "flatten"),
        helper.make_node("Gemm", ["features", "w", "b"], ["logits"], "head"),
        helper.make_node("Softmax", ["logits"], ["scores"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "height", "width"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(classifier())
