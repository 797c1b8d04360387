"""Programs that know nothing of plug-ins, after `ort_cuda_ep.install`, on every supported host: one JSON line a check.

    python -m tests.session.drop_in_programs_suite LIBRARY

Each makes its sessions in the way of a package, without it: tests/frameworks runs the packages themselves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper
from onnxruntime import InferenceSession, IOBinding, SessionOptions, get_available_providers, get_device

from tests.session import models
from tests.session.drop_in_suite import CPU, install_library
from tests.session.suite import EP, error_of, run_checks

HIDDEN = 16
IDS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


@contextmanager
def encoder_file() -> Iterator[Path]:
    """A text encoder of one layer: token ids and mask to last_hidden_state."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["embedded"], name="embed"),
        helper.make_node("MatMul", ["embedded", "w"], ["mixed"], name="dense"),
        helper.make_node("Tanh", ["mixed"], ["bent"], name="tanh"),
        helper.make_node("Cast", ["attention_mask"], ["floats"], to=TensorProto.FLOAT, name="cast"),
        helper.make_node("Unsqueeze", ["floats", "last"], ["column"], name="unsqueeze"),
        helper.make_node("Mul", ["bent", "column"], ["last_hidden_state"], name="mask"),
    ]
    tokens: tuple[int, models.Dims] = (TensorProto.INT64, ["batch", "sequence"])
    weights = {
        "table": rng.standard_normal((32, HIDDEN), np.float32),
        "w": rng.standard_normal((HIDDEN, HIDDEN), np.float32) / 4,
        "last": np.array([-1]),
    }
    hidden: tuple[int, models.Dims] = (TensorProto.FLOAT, ["batch", "sequence", HIDDEN])
    data = models.model(nodes, {"input_ids": tokens, "attention_mask": tokens}, {"last_hidden_state": hidden}, weights)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        yield path


def expected(path: Path) -> np.ndarray:
    found = InferenceSession(str(path), providers=[CPU]).run(None, {"input_ids": IDS, "attention_mask": MASK})[0]
    assert np.abs(found).max() > 0.1
    return found  # type: ignore[no-any-return]


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)  # with TF32, as by default


class Reader:
    """As rapidocr-onnxruntime makes its sessions: asks for CUDA by the kind of device, and warns where it got less."""

    def __init__(self, path: Path) -> None:
        providers: list[Any] = [(CPU, {"arena_extend_strategy": "kSameAsRequested"})]
        if get_device() == "GPU" and EP in get_available_providers():
            options = {
                "device_id": 0,
                "arena_extend_strategy": "kNextPowerOfTwo",
                "cudnn_conv_algo_search": "EXHAUSTIVE",
                "do_copy_in_default_stream": True,
            }
            providers.insert(0, (EP, options))
        settings = SessionOptions()
        settings.log_severity_level = 4
        settings.enable_cpu_mem_arena = False
        self.session = InferenceSession(str(path), sess_options=settings, providers=providers)
        self.warned = self.session.get_providers()[0] != EP


class Model:
    """As optimum-onnx does: one provider with its options, a device told from them, buffers bound by address."""

    def __init__(self, path: Path, provider: str, provider_options: dict[str, Any] | None = None) -> None:
        if provider not in ort.get_available_providers():
            raise ValueError(f"asked for {provider}, there are {ort.get_available_providers()}")
        options = [provider_options or {}]
        self.session = InferenceSession(path, sess_options=None, providers=[provider], provider_options=options)
        self.binding = IOBinding(self.session)

    @property
    def device(self) -> tuple[str, int]:
        provider = self.session.get_providers()[0]
        if provider == CPU:
            return "cpu", 0
        return "cuda", int(self.session.get_provider_options()[provider].get("device_id", 0))

    def to(self, device: str, index: int = 0) -> None:
        provider, options = (EP, {"device_id": index}) if device == "cuda" else (CPU, {})
        self.session.set_providers([provider], provider_options=[options])
        self.binding = IOBinding(self.session)

    def __call__(self) -> np.ndarray:
        buffers = {}
        for name, value in (("input_ids", IDS), ("attention_mask", MASK)):
            buffers[name] = ort.OrtValue.ortvalue_from_numpy(value, *self.device)
            address = buffers[name].data_ptr()
            self.binding.bind_input(name, *self.device, value.dtype, value.shape, address)
        shape = [*IDS.shape, HIDDEN]
        output = ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, *self.device)
        self.binding.bind_output("last_hidden_state", *self.device, np.float32, shape, output.data_ptr())
        self.binding.synchronize_inputs()
        self.session.run_with_iobinding(self.binding)
        self.binding.synchronize_outputs()
        return output.numpy()  # type: ignore[no-any-return]


def check_a_reader() -> None:
    with encoder_file() as path:
        reader = Reader(path)
        assert not reader.warned and reader.session.get_providers() == [EP, CPU]
        close(reader.session.run(None, {"input_ids": IDS, "attention_mask": MASK})[0], expected(path))


def check_a_model_moves_between_devices() -> None:
    with encoder_file() as path:
        model = Model(path, EP, {"use_tf32": 0})
        assert model.device == ("cuda", 0)
        wanted = expected(path)
        close(model(), wanted)
        model.to("cpu")
        assert model.device == ("cpu", 0)
        close(model(), wanted)
        model.to("cuda")
        assert model.device == ("cuda", 0)
        close(model(), wanted)
        assert "TensorrtExecutionProvider" in error_of(lambda: Model(path, "TensorrtExecutionProvider"))


def check_sentences() -> None:
    """As sentence-transformers does: the first provider of the list; the mean of a sentence's tokens."""
    with encoder_file() as path:
        model = Model(path, ort.get_available_providers()[0])
        assert model.session.get_providers()[0] == EP
        weight = MASK[..., None]
        mean = (model() * weight).sum(1) / weight.sum(1)
        close(mean, (expected(path) * weight).sum(1) / weight.sum(1))


if __name__ == "__main__":
    run_checks(globals(), install_library)
