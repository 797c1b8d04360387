"""Seeds of the model fuzzer: one-node models of the operators' case tables, and the small models of session tests.

    python -m tests.fuzz.seeds FILE

The file holds each model after its length as 4 little-endian bytes. Inputs have the case's values as defaults, so that
a seed runs as it is; cases that expect an error are seeds too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from ..op.harness.case import BoundCase
from ..op.harness.check import node_of
from ..op.harness.dtypes import COMPLEX, code_of, name_of, to_storage
from ..op.harness.families import all_cases
from ..op.harness.node import default_seed, one_node_model
from ..session import models

MAX_BYTES = 20_000  # of a seed: large ones cost cases


def case_seed(bound: BoundCase, static: bool) -> bytes | None:
    """The model of a case, with its values as defaults; None for what the host has no tensors of, or a large one."""
    types = {bound.input_type(index) for index in range(len(bound.case.inputs))}
    if types & {*COMPLEX}:
        return None
    node = node_of(bound, default_seed(bound))
    if sum(array.nbytes for array in node.first if array is not None) > MAX_BYTES:
        return None
    model, feeds = one_node_model(node, node.first, node.outputs, static)
    return with_defaults(model, feeds)


def with_defaults(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> bytes:
    """The model with values for its inputs."""
    for name, array in feeds.items():
        tensor = helper.make_tensor(name, code_of(name_of(array)), array.shape, to_storage(array).tobytes(), raw=True)
        model.graph.initializer.append(tensor)
    return bytes(model.SerializeToString())


def seeds() -> Iterator[bytes]:
    """Every seed; shapes are open in one half of them."""
    for index, bound in enumerate(all_cases().values()):
        model = case_seed(bound, static=index % 2 == 0)
        if model is not None and len(model) <= MAX_BYTES:
            yield model
    rng = np.random.default_rng(5)
    image = rng.standard_normal((1, 3, 9, 8), dtype=np.float32)
    rows = rng.standard_normal((2, 8, 16), dtype=np.float32)
    vector = np.ones(5, np.float32)
    for text, feeds in (
        (models.residual_network(1, 4), {"x": image}),
        (models.mixer(1, 16), {"x": rows}),
        (models.add_chain(4), {"v0": vector, "b": vector}),
        (models.add_then_string(), {"x": vector}),
    ):
        for _ in range(40):  # as many chances as an operator has
            yield with_defaults(onnx.load_from_string(text), feeds)


def write(path: Path) -> int:
    """Writes the file and returns how many seeds it holds."""
    count = 0
    with path.open("wb") as file:
        for model in seeds():
            file.write(len(model).to_bytes(4, "little") + model)
            count += 1
    return count


if __name__ == "__main__":
    print(write(Path(sys.argv[1])), "seeds")
