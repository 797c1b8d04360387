"""Registration of the library with the host, its devices, and sessions on them."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime as ort

from . import _driver
from ._library import Device, get_library_path

REGIONS_OPTION = "compiled_regions"
_EP_NAME = "CUDAExecutionProvider"
# Keys of a device's metadata, as src/abi/devices.h has them.
_SIMULATED_KEY = "simulated"
_ORDINAL_KEY = "cuda_ordinal"
_PATH_KEY = "library_path"  # the host's own: what was registered

_lock = threading.Lock()
_registered: dict[str, str] = {}  # registration name -> library path, as this process registered them


def get_ep_name() -> str:
    """The name of the execution provider, as in `session.get_providers()`."""
    return _EP_NAME


def get_ep_names() -> list[str]:
    """The names of all execution providers of the library."""
    return [_EP_NAME]


def register(device: Device = "auto", registration_name: str | None = None) -> str:
    """Registers the library for `device` with the host under `registration_name` and returns the library's path.

    The default name is that of the execution provider. Calling it again for the same library does nothing. Where the
    application has told the host of a library of ours itself, "auto" takes that one. Raises RuntimeError when this
    process holds another one than is asked for, or when the host already uses the name: builds of ONNX Runtime that
    bundle a CUDA plug-in register it under CUDAExecutionProvider themselves.
    """
    path = get_library_path(device)
    name = registration_name or _EP_NAME
    with _lock:
        if path in _registered.values():
            return path
        loaded = registered_library()
        if loaded is None and (found := devices()):
            loaded = str(found[0].ep_metadata.get(_PATH_KEY, path))
            if device == "auto" or Path(loaded).resolve() == Path(path).resolve():
                _registered[name] = loaded
                return loaded
        if loaded is not None:
            raise RuntimeError(f"this process already uses {loaded}; {path} needs a process of its own, "
                               "since both libraries carry the same provider name")  # fmt: skip
        try:
            ort.register_execution_provider_library(name, path)
        except Exception as error:
            if "already registered" in str(error).lower():
                raise RuntimeError(
                    f"this build of ONNX Runtime ({ort.__version__}) has already registered another library as {name}, "
                    "probably its bundled CUDA plug-in. Install the plain `onnxruntime` package, or register under "
                    'another name: register(registration_name="CudaPluginExecutionProvider")'
                ) from error
            raise RuntimeError(f"ONNX Runtime {ort.__version__} could not load {path}: {error}") from error
        _registered[name] = path
    return path


def registered_library() -> str | None:
    """The path of the library that this process has registered, or None."""
    return next(iter(_registered.values()), None)


def devices() -> list[Any]:
    """The registered library's devices (`onnxruntime.OrtEpDevice`), by ordinal; empty before `register`."""
    ours = [found for found in ort.get_ep_devices() if is_ours(found)]
    return sorted(ours, key=lambda found: int(found.ep_metadata.get(_ORDINAL_KEY, 0)))


def is_ours(device: Any) -> bool:
    """Whether an `OrtEpDevice` is of this library, under whatever name."""
    return _SIMULATED_KEY in device.ep_metadata


def is_simulated(device: Any) -> bool:
    """Whether an `OrtEpDevice` of ours is the simulated device rather than a GPU."""
    return str(device.ep_metadata.get(_SIMULATED_KEY, "0")).lower() in ("1", "true", "yes")


def device_label(device_id: int = 0) -> str:
    """What device `device_id` is, for people: the GPU's name, or that it is simulated. ValueError if there is none."""
    device = find_device(device_id)
    name = device.ep_metadata.get("name", f"GPU {device_id}")
    return "simulated device" if is_simulated(device) else name


def session(
    model: str | os.PathLike[str] | bytes,
    options: ort.SessionOptions | None = None,
    provider_options: Mapping[str, Any] | None = None,
    device_id: int = 0,
) -> ort.InferenceSession:
    """An `InferenceSession` of `model` (path or bytes) on device `device_id`, nodes it lacks on the CPU provider.

    `options` gains our device and must not be used for another session. `provider_options` may hold any printable
    values; True and False become "1" and "0". Registers the library first unless that has been done. Raises ValueError
    for a device that does not exist; errors of the host pass through, and a failed Run is an error, never repeated on
    the CPU. RuntimeError where `options` want the optimised model saved and it has compiled regions.
    """
    if not _registered:
        register()
    device = find_device(device_id)
    options = options if options is not None else ort.SessionOptions()
    options.add_provider_for_devices([device], as_text(provider_options or {}))
    source = model if isinstance(model, bytes) else os.fspath(model)
    # With the host's fallback a failed Run is repeated on the CPU, and only a line on standard output says so.
    try:
        return ort.InferenceSession(source, sess_options=options, enable_fallback=0)
    except Exception as error:
        if options.optimized_model_filepath and "contains compiled nodes" in str(error):
            raise RuntimeError(
                f"{error} Those are compiled regions: set provider option {REGIONS_OPTION}=0, or save the model by "
                "`ort-cuda-ep optimize`"
            ) from error
        raise


def find_device(device_id: int) -> Any:
    found = devices()
    if not found:
        reason = _driver.probe().error or "the library found none that it can use"
        raise ValueError(f"there is no device: {reason}. `ort-cuda-ep doctor` says more")
    if not 0 <= device_id < len(found):
        raise ValueError(f"device_id {device_id} does not exist: {len(found)} device(s) were found")
    return found[device_id]


def as_text(options: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(int(value)) if isinstance(value, bool) else str(value) for key, value in options.items()}
