"""What the loaded library knows of its memory, streams, graphs and plans."""

import ctypes
import functools
import json
import os
from typing import Any

from . import _provider

_FIRST_BYTES = 16 << 10


def statistics() -> dict[str, Any]:
    """Figures of this process's registered library, as docs/guides/serving.md lists them; bytes unless a key says us.

    Cheap enough for every scrape of a server, and may be called from any thread while sessions run: a Run waits no
    longer than it takes to read an allocator's figures. Counts of memory begin anew with the last session's end, those
    of graphs and plans never. Raises RuntimeError before `register`, and in a child that was forked after it.
    """
    path = _provider.registered_library()
    if path is None:
        raise RuntimeError("no library is registered in this process, so it has no statistics: call register() first")
    return read_statistics(path)


def read_statistics(path: str) -> dict[str, Any]:
    """The same of a library that the host has loaded, whoever registered it."""
    read = _entry_point(path)
    size = _FIRST_BYTES
    while True:
        text = ctypes.create_string_buffer(size)
        needed = read(text, size)
        if needed == 0:
            raise RuntimeError(
                "there are no statistics: this process was forked after the registration, or host memory ran out"
            )
        if needed <= size:
            found = json.loads(text.value)
            assert isinstance(found, dict)
            return found
        size = 2 * needed  # it may have grown by the next call


@functools.cache
def _entry_point(path: str) -> Any:
    """The C function of the library that the host has loaded; no other copy of it is loaded here."""
    library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    read = library.OrtCudaEpStatistics
    read.argtypes, read.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    return read
