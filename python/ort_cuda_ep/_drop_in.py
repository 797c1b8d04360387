"""`install`: programs written for a host that brings a CUDA provider of its own run on this one, unchanged.

Replaced in the host's Python package, until `uninstall`: what lists providers and names the device, what makes a
session of `providers=`, and what a device called "cuda" means (older hosts leave its vendor out, and find no memory).
docs/guides/drop-in.md says what a program then sees.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native
from onnxruntime.capi import onnxruntime_inference_collection as host

from . import _host, _options_copy, _provider
from ._library import Device

_EP_NAME = _provider.get_ep_name()
_CPU = "CPUExecutionProvider"
_NVIDIA = 0x10DE
_NAMES_SINCE = (1, 28)  # hosts before ignore the name of a plug-in provider in `providers=`
_CREATE = "_create_inference_session"  # of InferenceSession: constructor, set_providers and fallback end there

_lock = threading.Lock()
_installed: ExitStack | None = None  # puts everything back when it is closed
_defaults: dict[str, str] = {}  # replaced as a whole: other threads make sessions


def install(device: Device = "auto", provider_options: Mapping[str, Any] | None = None) -> str:
    """Registers the library as `register` does and makes the host's Python package know its provider by name.

    `provider_options` hold for every session that names the provider and does not set them itself. Another call changes
    nothing but them. Returns the library's path. Raises RuntimeError where the host brings a CUDAExecutionProvider
    itself or ours has another name, ValueError where there is no device, and whatever `register` raises; nothing is
    replaced then.
    """
    global _installed, _defaults
    with _lock:
        if _installed is None:
            _refuse_another_provider()
        path = _provider.register(device)
        name = _provider.find_device(0).ep_name
        if name != _EP_NAME:
            raise RuntimeError(f"the library is registered as {name}; programs ask for {_EP_NAME}")
        if _installed is None:
            with ExitStack() as undo:
                _replace_all(undo)
                _installed = undo.pop_all()
        if provider_options is not None:
            _defaults = _provider.as_text(provider_options)
    return path


def uninstall() -> None:
    """Puts back all that `install` replaced. Sessions live on, and the library stays registered. Twice is once."""
    global _installed, _defaults
    with _lock:
        if _installed is not None:
            _installed.close()
            _installed = None
        _defaults = {}


def _refuse_another_provider() -> None:
    names = ort.get_available_providers()
    # A host lists what it was built with by priority, the CPU last, and plug-ins behind that.
    built_in = _EP_NAME in names and _CPU in names and names.index(_EP_NAME) < names.index(_CPU)
    plugged_in = any(found.ep_name == _EP_NAME and not _provider.is_ours(found) for found in ort.get_ep_devices())
    if built_in or plugged_in:
        packages = ", ".join(_host.distributions()) or f"ONNX Runtime {ort.__version__}"
        raise RuntimeError(
            f"{packages} already has a {_EP_NAME} of its own, which sessions would get in place of this one. Install "
            "the plain `onnxruntime` package alone, or make sessions by ort_cuda_ep.session()"
        )


def _replace_all(undo: ExitStack) -> None:
    _replace_functions(undo)
    _replace_method(undo, host.InferenceSession, _CREATE, _create)
    _replace_method(undo, native.OrtDevice, "__init__", _init_device)
    if _host.version() < _NAMES_SINCE:
        _replace_method(undo, native.SessionOptions, _options_copy.CUSTOM_OPS, _options_copy.register_custom_ops)


def _replace_functions(undo: ExitStack) -> None:
    listed, device_kind = ort.get_available_providers, ort.get_device

    def get_available_providers() -> list[str]:
        return [_EP_NAME, *(name for name in listed() if name != _EP_NAME)]  # by priority: callers take the first

    def get_device() -> str:
        return "GPU"

    for stock, ours in ((listed, get_available_providers), (device_kind, get_device)):
        ours.__doc__ = stock.__doc__
        _swap(stock, ours)
        undo.callback(_swap, ours, stock)


def _swap(old: object, new: object) -> None:
    """In every module: `from onnxruntime import get_available_providers` has put it into others than the host's."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict):  # a class may stand among the modules
            continue
        for name in [name for name, value in list(names.items()) if value is old]:
            names[name] = new


def _replace_method(undo: ExitStack, owner: type, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    """The class stays the same object, so whoever imported or derived from it is reached."""
    stock = vars(owner).get(name)
    if stock is None:
        raise RuntimeError(f"ONNX Runtime {ort.__version__} has no {owner.__name__}.{name}: install() does not know it")
    setattr(owner, name, make(stock))
    undo.callback(setattr, owner, name, stock)


def _init_device(stock: Any) -> Callable[..., None]:
    def init(self: Any, *args: Any) -> None:
        if len(args) == 3 and args[0] == native.OrtDevice.cuda():
            kind, memory, ordinal = args
            args = (kind, memory, _NVIDIA, ordinal)
        stock(self, *args)

    return init


def _create(stock: Any) -> Callable[..., None]:
    def create(self: Any, providers: Any, provider_options: Any, disabled_optimizers: Any = None) -> None:
        if not _asks_for_us(providers):
            stock(self, providers, provider_options, disabled_optimizers)
            return
        # The fallback of the host's constructor makes a session on the CPU of any error.
        self._enable_fallback = False
        if isinstance(providers, str):
            raise ValueError(f"'providers' should be a sequence of names, not the text '{providers}'")
        names, options = host.check_and_normalize_provider_args(
            providers, provider_options, ort.get_available_providers()
        )
        ours = {**_defaults, **options[names.index(_EP_NAME)]}
        ordinal = _ordinal(ours.pop("device_id", "0"))
        device = _provider.find_device(ordinal)
        if _host.version() >= _NAMES_SINCE:
            options[names.index(_EP_NAME)] = {**ours, "device_id": str(ordinal)}
            stock(self, names, options, disabled_optimizers)
        else:
            wanted = [
                (name, ours, device) if name == _EP_NAME else (name, values, None)
                for name, values in zip(names, options, strict=True)
            ]
            self._sess_options = _options_copy.with_providers(self._sess_options, wanted)
            stock(self, None, None, disabled_optimizers)
        if _EP_NAME not in self._providers:
            raise RuntimeError(f"ONNX Runtime {ort.__version__} made a session without {_EP_NAME}, which was asked for")
        self._provider_options[_EP_NAME] = {**ours, "device_id": str(ordinal)}

    return create


def _asks_for_us(providers: Any) -> bool:
    """Whether `providers` names ours, also in a form that the host refuses: its error must be seen."""
    if isinstance(providers, str) or not isinstance(providers, Iterable):
        return bool(providers == _EP_NAME)
    return any((entry[0] if isinstance(entry, tuple | list) and entry else entry) == _EP_NAME for entry in providers)


def _ordinal(device_id: str) -> int:
    try:
        return int(device_id)
    except ValueError:
        raise ValueError(f"device_id must be the number of a device, not '{device_id}'") from None
