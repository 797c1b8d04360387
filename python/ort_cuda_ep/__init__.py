"""CUDA execution provider plug-in for stock ONNX Runtime.

Typical use::

    import ort_cuda_ep

    session = ort_cuda_ep.session("model.onnx")  # registers the library when needed
    outputs = session.run(None, {"input": array})

One process loads one library: the one for NVIDIA GPUs, or the simulated device where no GPU is present.
"""

from ._drop_in import install, uninstall
from ._library import LIBRARY_VARIABLE, get_library_path, gpu_driver_present
from ._prometheus import prometheus_text, prometheus_texts
from ._provider import devices, get_ep_name, get_ep_names, is_simulated, register, session
from ._statistics import statistics
from ._version import __version__

__all__ = [
    "LIBRARY_VARIABLE",
    "__version__",
    "devices",
    "get_ep_name",
    "get_ep_names",
    "get_library_path",
    "gpu_driver_present",
    "install",
    "is_simulated",
    "prometheus_text",
    "prometheus_texts",
    "register",
    "session",
    "statistics",
    "uninstall",
]
