"""Exported models with fixed shapes in CUDA graphs: captured as they are, without any optimiser, and replayed right.

What the exporters left open of the inputs' shapes is fixed to those of the first Run, as an application does whose
shapes do not change. Each model is captured under an id and replayed with other contents; results are bit-equal to
ordinary Runs. What cannot be captured is refused by name.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from ..session import host
from . import weights

GRAPHS = Path(__file__).parent / "graphs"
NAMES = sorted(path.name.removesuffix(".onnx.xz") for path in GRAPHS.glob("*.onnx.xz"))
# Models that the host runs graphs in, by the node that is named.
CONTROL_FLOW = {
    "faster_rcnn.torchscript": "If node",
    "retinanet.torchscript": "If node",
}


def fix_shapes(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> None:
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, feed[value.name].shape, strict=True):
            dim.Clear()
            dim.dim_value = size


def create(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_provider_for_devices([host.devices()[0]], {**host.EXACT, "enable_cuda_graph": "1"})
    return ort.InferenceSession(model.SerializeToString(), options, enable_fallback=0)


def on_device(array: np.ndarray) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), "gpu", 0, 0x10DE)


def shuffled(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same values in other places; masks stay."""
    rng = np.random.default_rng(1)
    return {
        name: array if array.dtype == bool else rng.permutation(array.ravel()).reshape(array.shape)
        for name, array in feed.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_captured(name: str) -> None:
    host.require_plugin()
    model, feeds = weights.load(GRAPHS / f"{name}.onnx.xz")
    feed = feeds[0]
    fix_shapes(model, feed)
    if name in CONTROL_FLOW:
        with pytest.raises(Exception, match=f"{CONTROL_FLOW[name]} .* is control flow"):
            create(model)
        return
    session = create(model)
    ordinary = ort.RunOptions()
    ordinary.add_run_config_entry("gpu_graph_id", "-1")
    inputs = {key: on_device(array) for key, array in feed.items()}
    outputs = [on_device(np.zeros_like(array)) for array in session.run(None, feed, ordinary)]
    binding = session.io_binding()
    for key, value in inputs.items():
        binding.bind_ortvalue_input(key, value)
    for output, value in zip(session.get_outputs(), outputs, strict=True):
        binding.bind_ortvalue_output(output.name, value)
    for contents in (feed, shuffled(feed)):
        for key, array in contents.items():
            inputs[key].update_inplace(np.ascontiguousarray(array))
        session.run_with_iobinding(binding)
        for output, found, wanted in zip(
            session.get_outputs(), outputs, session.run(None, contents, ordinary), strict=True
        ):
            np.testing.assert_array_equal(found.numpy(), wanted, err_msg=f"{name}: {output.name}")
