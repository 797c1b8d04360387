"""`ort-cuda-ep optimize`: saves a model as the host's optimisers leave it."""

from pathlib import Path
from typing import Annotated

import onnx
import typer
from rich.markup import escape

from .. import _provider
from ..optimize import Level
from ..optimize import optimize as optimize_model
from .output import (
    BAD_INPUT,
    PROVIDER_FAILED,
    check_model,
    console,
    error_text,
    exit_code_of,
    fail,
    parse_options,
    print_json,
)
from .parameters import AsJson, DeviceId, DeviceKind, Model, Options


def _why_not_written(path: Path) -> str:
    """Why the file cannot be opened for writing, of which the host tells no more than a number; else empty."""
    path = path.resolve()
    is_new = not path.exists()
    if not is_new and not (path.is_file() or path.is_dir()):
        return ""  # a pipe or a device, which may wait for whoever reads it
    try:
        path.open("ab").close()
    except OSError as error:
        return error.strerror or str(error)
    if is_new:
        path.unlink()
    return ""


def optimize(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="the file to write")],
    level: Annotated[Level, typer.Option(help="which of the host's optimisers")] = "extended",
    option: Options = None,
    device: DeviceKind = "auto",
    device_id: DeviceId = 0,
    as_json: AsJson = False,
) -> None:
    """Save MODEL as the host's optimisers leave it on the provider, without compiled regions, which cannot be saved."""
    check_model(model, as_json)
    options = parse_options(option, as_json)
    if options.get(_provider.REGIONS_OPTION, "0") not in ("0", "false", "False"):
        fail(BAD_INPUT, f"graphs with compiled regions cannot be saved: leave {_provider.REGIONS_OPTION} out", as_json)
    if not out.parent.is_dir():
        fail(BAD_INPUT, f"{out.parent} is no folder", as_json)
    if out.exists() and out.samefile(model):
        fail(BAD_INPUT, f"{out} is the model itself", as_json)
    if reason := _why_not_written(out):
        fail(BAD_INPUT, f"{out} cannot be written: {reason}", as_json)
    try:
        _provider.register(device)
        written = optimize_model(model, out, options, device_id, level)
    except Exception as error:
        fail(exit_code_of(error), error_text(error), as_json)
    try:
        nodes = len(onnx.load(out, load_external_data=False).graph.node)
    except Exception as error:
        fail(PROVIDER_FAILED, f"the host wrote no model to {out}: {error}", as_json)
    if as_json:
        print_json({"ok": True, "nodes": nodes, "files": [str(path) for path in written]})
        return
    console.print(f"{'nodes':<10} {nodes}", highlight=False)
    for path in written:
        console.print(f"{'file':<10} {escape(str(path))}", highlight=False, soft_wrap=True)
