"""Attention's masked scores between codes in compiled regions, as onnxruntime.quantization writes them.

    python -m tests.session.region_masked_softmax_suite LIBRARY

Codes are those of the same nodes one by one, but for shares next to a tie: there one more or one less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto

from tests.session import models
from tests.session.region_quantized_suite import Network
from tests.session.region_suite import joined
from tests.session.suite import logged, run_checks

Dims = Sequence[str | int]
SCORES = ("b", "h", "q", "k")
SIZES = ({"b": 2, "h": 3, "q": 5, "k": 16}, {"b": 1, "h": 1, "q": 1, "k": 1}, {"b": 3, "h": 2, "q": 4, "k": 50},
         {"b": 2, "h": 2, "q": 7, "k": 128}, {"b": 0, "h": 2, "q": 3, "k": 8},
         {"b": 1, "h": 2, "q": 3, "k": 1040})  # fmt: skip
BY_KEY = ("b", 1, 1, "k")
MASKS: Sequence[Dims] = (BY_KEY, (1, 1, 1, "k"), ("b", 1, "q", "k"), (1, "h", "q", "k"), SCORES, ("q", "k"))


class Masked(Network):
    def __init__(self, seed: int, mask: Dims, coded: bool, keys: bool, kind: type = np.uint8,
                 mask_first: bool = False) -> None:  # fmt: skip
        """`keys`: the mask is 0 or the lowest number, and nothing else is left of the scores; otherwise a bias."""
        super().__init__(seed)
        self.mask, self.keys = mask, keys
        lowest = np.iinfo(kind).min
        scores = self.through("x", self.scale(0.03, 0.05), self.zero(kind, lowest + 117))
        scale, zero = (256.878, 255) if keys else (0.05, 140)
        added = "mask"
        if coded:
            added = self.through("mask", self.constant(np.float32(scale)), self.zero(kind, lowest + zero))
        masked = self.add("Add", [added, scores] if mask_first else [scores, added])
        scale, zero = (256.885, 255) if keys else (0.073, 150)
        masked = self.through(masked, self.constant(np.float32(scale)), self.zero(kind, lowest + zero))
        self.soft = self.add("Softmax", [masked], axis=-1)
        self.y = self.add("QuantizeLinear", [self.soft, self.constant(np.float32(1 / 255)), self.zero(kind, lowest)])
        self.kind = TensorProto.UINT8 if kind == np.uint8 else TensorProto.INT8

    def model(self, outputs: dict[str, int]) -> bytes:
        return models.model(
            self.nodes,
            {"x": (TensorProto.FLOAT, SCORES), "mask": (TensorProto.FLOAT, self.mask)},
            {name: (kind, None) for name, kind in outputs.items()},
            self.constants,
        )

    def feeds(self, sizes: dict[str, int]) -> dict[str, np.ndarray]:
        known = {**sizes, "others": sizes["k"]}
        shape = [known[d] if isinstance(d, str) else d for d in self.mask]
        mask = self.feed(*shape)
        if self.keys:
            mask = np.where(mask > 1, np.finfo(np.float32).min, 0).astype(np.float32)
        return {"x": self.feed(*sizes.values()), "mask": mask}


def _rewritten(network: Masked, outputs: dict[str, int] | None = None) -> int:
    """How often the mask became part of a Softmax; results are those of the nodes one by one."""
    model = network.model(outputs or {network.y: network.kind})
    ort.set_default_logger_severity(0)
    with logged("fusion ") as lines:
        fused = joined(model, {"fusion": "1"})
    ort.set_default_logger_severity(2)
    plain = joined(model)
    for sizes in (*SIZES, *SIZES):
        feeds = network.feeds(sizes)
        for mine, twin in zip(fused.run(None, feeds), plain.run(None, feeds), strict=True):
            assert mine.shape == twin.shape, (mine.shape, twin.shape)
            if twin.dtype == np.float32:
                np.testing.assert_allclose(mine, twin, rtol=1e-5, atol=1e-6)
                continue
            away = np.abs(mine.astype(np.int64) - twin.astype(np.int64))
            assert not away.size or (away.max() <= 1 and np.mean(away != 0) <= 1e-3), (sizes, np.mean(away != 0))
    return sum("Add node" in line and "Softmax node" in line for line in lines if "fusion qdq: " in line)


def check_masks() -> None:
    """By key and by query, of numbers and of codes."""
    for seed, mask in enumerate(MASKS):
        for coded in (False, True):
            for keys in (False, True):
                network = Masked(seed, mask, coded, keys)
                assert _rewritten(network) == 1, (mask, coded, keys)


def check_types_and_order() -> None:
    """Codes of either type, and the mask on either side."""
    for seed, kind in enumerate((np.int8, np.uint8)):
        for coded in (False, True):
            assert _rewritten(Masked(10 + seed, BY_KEY, coded, False, kind, mask_first=True)) == 1


def check_others_read_the_scores() -> None:
    """What the model gives away besides is still there."""
    for index, which in enumerate(("Add", "QuantizeLinear", "DequantizeLinear", "Softmax")):
        network = Masked(20 + index, BY_KEY, True, False)
        nodes: list[Any] = network.nodes
        add = next(i for i, node in enumerate(nodes) if node.op_type == "Add")
        node = next(node for node in nodes[add:] if node.op_type == which)
        kind = network.kind if which == "QuantizeLinear" else TensorProto.FLOAT
        assert _rewritten(network, {network.y: network.kind, node.output[0]: kind}) == 0, which


def check_masks_that_do_not_repeat() -> None:
    """Keys that share a number, and keys of which the model does not say that they are the scores'."""
    for mask in (("b", 1, "q", 1), ("b", 1, 1, "others")):
        assert _rewritten(Masked(30, mask, False, False)) == 0, mask


if __name__ == "__main__":
    run_checks(globals())
