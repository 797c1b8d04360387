"""Parameters that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from .._library import Device

Model = Annotated[Path, typer.Argument(help="an ONNX model")]
Inputs = Annotated[Path | None, typer.Option(help=".npz file with one array per input")]
Dims = Annotated[list[str] | None, typer.Option(help="value of a named open dimension: name=4")]
Shapes = Annotated[list[str] | None, typer.Option(help="whole shape of an input: input=1,3,224,224")]
Options = Annotated[list[str] | None, typer.Option(help="provider option: key=value")]
DeviceKind = Annotated[Device, typer.Option(help="auto, cuda or sim")]
DeviceId = Annotated[int, typer.Option(help="ordinal of the device", min=0)]
Seed = Annotated[int, typer.Option(help="seed of random inputs")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object instead of text")]
