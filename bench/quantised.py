"""Quantised forms of models, as ONNX Runtime's static quantisation writes them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnxruntime import quantization

Feeds = dict[str, np.ndarray]


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Gives the quantiser each Run's inputs."""

    def __init__(self, feeds: Iterable[Feeds]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> Feeds | None:
        """The next inputs."""
        return next(self._feeds, None)


def quantised(model: onnx.ModelProto, feeds: Iterable[Feeds], form: str = "QDQ") -> onnx.ModelProto:
    """`model`, of float32, with int8 weights and uint8 activations, whose ranges are those of Runs with `feeds`.

    "QDQ": QuantizeLinear and DequantizeLinear, weights by channel; "QOperator": QLinear operators.
    """
    with tempfile.TemporaryDirectory() as folder:
        plain, inferred, path = (Path(folder) / f"{name}.onnx" for name in ("plain", "inferred", "quantised"))
        onnx.save(model, plain)
        quantization.shape_inference.quant_pre_process(plain, inferred, skip_symbolic_shape=True)
        quantization.quantize_static(
            inferred, path, _Reader(feeds), quant_format=quantization.QuantFormat[form], per_channel=form == "QDQ",
            activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
        )  # fmt: skip
        return onnx.load(path)
