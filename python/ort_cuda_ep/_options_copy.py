"""Copies of `onnxruntime.SessionOptions` with providers, for hosts where a provider's name alone has no effect.

Providers are added to an options object for good, and the object is the caller's, who may use it again.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from onnxruntime.capi import _pybind_state as native

CUSTOM_OPS = "register_custom_ops_library"  # of SessionOptions

# Format version 8, a graph named "g", operator set 17.
_EMPTY_MODEL = b"\x08\x08:\x03\x12\x01gB\x02\x10\x11"

_lock = threading.Lock()
_custom_ops: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()


def register_custom_ops(stock: Any) -> Callable[..., None]:
    """A method that also remembers the libraries: a copy has all of an options object but them and its providers."""

    def register_custom_ops_library(self: Any, path: Any) -> None:
        stock(self, path)
        _custom_ops.setdefault(self, []).append(path)

    return register_custom_ops_library


def with_providers(options: Any, wanted: Iterable[tuple[str, dict[str, str], Any]]) -> Any:
    """A copy of `options`, or of the host's default, with providers by (name, their options, their device or None)."""
    copied = _copy(options if options is not None else native.get_default_session_options())
    missing = set(native.get_all_providers()) - set(native.get_available_providers())
    for name, values, device in wanted:
        if device is not None:
            copied.add_provider_for_devices([device], values)
        elif name not in missing:  # the host passes over what it knows and was not built with
            copied.add_provider(name, values)
    return copied


def _copy(options: Any) -> Any:
    """The host has no call for it; a session hands out a copy of its own."""
    with _lock:
        profiling = options.enable_profiling
        options.enable_profiling = False  # or this session writes a profile
        try:
            copied = native.InferenceSession(options, _EMPTY_MODEL, False, False).session_options
        finally:
            options.enable_profiling = profiling
    copied.enable_profiling = profiling
    for path in _custom_ops.get(options, ()):
        copied.register_custom_ops_library(path)
    return copied
