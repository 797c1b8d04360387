"""ONNX's backend node tests, as the installed onnx package makes them; kept in a file, for that takes half a minute."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper

Proto = onnx.TensorProto | onnx.SequenceProto | onnx.OptionalProto


@dataclass(frozen=True)
class NodeCase:
    """A model with the inputs and outputs of each of its data sets, serialised: class name and bytes."""

    name: str
    model: bytes
    data_sets: list[tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]]
    rtol: float
    atol: float

    def operators(self) -> list[str]:
        """The operators of the model's main graph, each once, as `domain.op` or `op`."""
        nodes = onnx.load_from_string(self.model).graph.node
        return sorted({f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in nodes})


def load(folder: Path) -> list[NodeCase]:
    """All cases in the order of their names, from a file in `folder` that is made when it is missing."""
    path = folder / f"node-cases-{onnx.__version__}.pickle"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_bytes(pickle.dumps(_collect()))
        fresh.replace(path)
    cases: list[NodeCase] = pickle.loads(path.read_bytes())
    return cases


def parse(kind: str, data: bytes) -> Proto:
    """The message that a data set holds."""
    message: Proto = getattr(onnx, kind)()
    message.ParseFromString(data)
    return message


def _collect() -> list[NodeCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # references that overflow and divide by zero on purpose
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    cases = []
    for case in found:
        inputs = [entry.type for entry in case.model.graph.input]
        outputs = [entry.type for entry in case.model.graph.output]
        sets = [(_protos(feeds, inputs), _protos(results, outputs)) for feeds, results in case.data_sets]
        cases.append(NodeCase(case.name, case.model.SerializeToString(), sets, case.rtol, case.atol))
    return sorted(cases, key=lambda case: case.name)


def _protos(values: Any, types: list[onnx.TypeProto]) -> list[tuple[str, bytes]]:
    made = [_proto(value, kind) for value, kind in zip(values, types, strict=True)]
    return [(type(proto).__name__, proto.SerializeToString()) for proto in made]


def _proto(value: Any, kind: onnx.TypeProto) -> Proto:
    if isinstance(value, Proto):
        return value
    if kind.HasField("optional_type"):
        return onnx.numpy_helper.from_optional(value)
    if kind.HasField("sequence_type"):
        return onnx.numpy_helper.from_list(value)
    return onnx.numpy_helper.from_array(np.asarray(value))
