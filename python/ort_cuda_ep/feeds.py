"""Inputs for a model: from a .npz file, or random ones with chosen dimensions."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
_INTEGERS = {
    f"tensor({name})": np.dtype(name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


class FeedError(ValueError):
    """Inputs that do not fit the model, or that cannot be made."""


def parse_dims(texts: list[str]) -> dict[str, int]:
    """`name=value` texts as a table of dimension values."""
    dims = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if not name or not value.isdigit():
            raise FeedError(f"a dimension is given as name=value with a whole number, not {text!r}")
        dims[name] = int(value)
    return dims


def parse_shapes(texts: list[str]) -> dict[str, list[int]]:
    """`input=1,3,224,224` texts as a table of input shapes."""
    shapes = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        parts = value.split(",") if value else []
        if not name or not all(part.isdigit() for part in parts):
            raise FeedError(f"a shape is given as input=1,3,224,224, not {text!r}")
        shapes[name] = [int(part) for part in parts]
    return shapes


def make_feeds(
    inputs: list[Any], path: Path | None, dims: list[str] | None, shapes: list[str] | None, seed: int
) -> dict[str, np.ndarray]:
    """Those of a .npz file, or random ones without it. FeedError, OSError and ValueError say what does not fit."""
    if path:
        return load_feeds(inputs, path)
    return random_feeds(inputs, parse_dims(dims or []), parse_shapes(shapes or []), seed)


def load_feeds(inputs: list[Any], path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file, which must have one for each of the model's inputs."""
    if not zipfile.is_zipfile(path):
        raise FeedError(f"{path} {'is not an .npz file' if path.exists() else 'does not exist'}")
    try:
        with np.load(path) as archive:
            feeds = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise FeedError(f"{path} cannot be read: {error}") from error
    missing = [entry.name for entry in inputs if entry.name not in feeds]
    if missing:
        raise FeedError(f"{path} has no array for input(s) {', '.join(missing)}; it has {', '.join(feeds) or 'none'}")
    return {entry.name: feeds[entry.name] for entry in inputs}


def random_feeds(
    inputs: list[Any], dims: Mapping[str, int], shapes: Mapping[str, list[int]], seed: int
) -> dict[str, np.ndarray]:
    """Normal floats, small non-negative integers, random truth values. An open dimension without a value becomes 1."""
    names = {entry.name for entry in inputs}
    symbols = {dim for entry in inputs for dim in entry.shape if isinstance(dim, str)}
    _refuse_unknown("input", set(shapes) - names, names)
    _refuse_unknown("dimension", set(dims) - symbols, symbols)
    rng = np.random.default_rng(seed)
    feeds = {}
    for entry in inputs:
        shape = shapes.get(entry.name) or [_dim(dim, dims) for dim in entry.shape]
        feeds[entry.name] = _random_array(rng, entry.name, entry.type, shape)
    return feeds


def _dim(dim: int | str | None, dims: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else dims.get(dim or "", 1)


def _refuse_unknown(what: str, unknown: set[str], known: set[str]) -> None:
    if unknown:
        raise FeedError(
            f"the model has no {what} {', '.join(sorted(unknown))}; it has {', '.join(sorted(known)) or 'none'}"
        )


def _random_array(rng: np.random.Generator, name: str, kind: str, shape: list[int]) -> np.ndarray:
    if kind in _FLOATS:
        return rng.standard_normal(shape).astype(_FLOATS[kind])
    if kind in _INTEGERS:
        return rng.integers(0, 2, shape).astype(_INTEGERS[kind])
    if kind == "tensor(bool)":
        return rng.integers(0, 2, shape).astype(np.bool_)
    raise FeedError(f"input {name} is {kind}: random inputs cannot be made for it, give --inputs FILE.npz")
