"""Exports the models of `bench/torch_models.py` to `bench/graphs`: fp16, of full size, structure without weights.

Needs what tools/export_models.py needs. `export_full_models.py [NAME...]` exports the named models, all without one.
Each file is filled, run in fp32 on the CPU provider and its outputs described, before it counts. 20 GB of memory do.
"""

import argparse
import dataclasses
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "python"), str(ROOT / "tools")]

from export_models import export_dynamo, export_torchscript, prepare  # noqa: E402
from exports.model import Export  # noqa: E402

from bench import driver, full_models, torch_models  # noqa: E402
from bench.full_models import FullModel  # noqa: E402
from tests.models import weights  # noqa: E402

# Neither 0 nor 1, which exporters take for constants.
EXPORT_BATCH, EXAMPLE_SIZES = 2, {"length": 3, "past": 5, "total": 8}


def export(model: FullModel) -> bytes:
    """The bytes of its file."""
    module = torch_models.build(model.name)
    prepare(module)
    module.half()
    sizes = next(iter(model.sizes.values()))
    example = dataclasses.replace(model, sizes={"": {name: EXAMPLE_SIZES[name] for name in sizes}})
    feeds = {name: torch.from_numpy(array) for name, array in example.feeds(EXPORT_BATCH).items()}
    arguments: tuple[Any, ...] = torch_models.arguments(model.name, feeds)
    names = ["y"] if model.outputs == 1 else [f"y{number}" for number in range(model.outputs)]
    how = export_torchscript if model.exporter == "torchscript" else export_dynamo
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.onnx"
        how(Export(module, list(feeds), [arguments], names, model.open_axes()), path)
        del module
        found = onnx.load(path)
    return weights.strip(found, [])


def describe(model: FullModel) -> str:
    """Runs the file in fp32 with the inputs of its first case; what came out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        driver.save(full_models.model(model.name, "float32"), path)
        session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        feeds = model.feeds(1, next(iter(model.sizes)))
        given = {
            name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in feeds.items()
        }
        lines = []
        for output, array in zip(session.get_outputs(), session.run(None, given), strict=True):
            if array.size == 0 or not np.all(np.isfinite(array)) or array.std() == 0 or np.abs(array).max() > 6e4:
                raise ValueError(f"output {output.name} {array.shape} is empty, constant or beyond fp16")
            lines.append(f"{output.name}{list(array.shape)} std {array.std():.3g}")
    return "; ".join(lines[:2])


def main() -> None:
    """Exports what is asked for; ends with the list of what failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("names", nargs="*", help="models; all without one")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that no exporter knows
    full_models.GRAPHS.mkdir(exist_ok=True)
    failed = []
    for model in full_models.TABLE:
        if arguments.names and model.name not in arguments.names:
            continue
        path = full_models.GRAPHS / f"{model.name}.onnx.xz"
        try:
            path.write_bytes(export(model))
            print(f"{model.name}: {path.stat().st_size} bytes, {describe(model)}", flush=True)
        except Exception as error:
            path.unlink(missing_ok=True)
            failed.append(model.name)
            print(f"{model.name}: failed: {type(error).__name__}: {str(error).strip()[:600]}", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
