"""Exports the models of `tools/exports` to `tests/models/graphs`: structure without weights (tests/models/weights.py).

Needs torch, torchvision, transformers, onnxscript and onnxruntime, which nothing else here does: run it with the Python
of an environment that has them. `export_models.py [NAME...]` exports the named models (`resnet`, `bert.dynamo`), all
without one. Seeded: the same versions write the same bytes. Each file is filled, run on the CPU provider with every
input and its outputs described, before it counts.
"""

import argparse
import logging
import sys
import tempfile
import traceback
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnxruntime import quantization
from torch.utils import _pytree as pytree

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from exports import sequences, text, vision  # noqa: E402
from exports.model import Entry, Export  # noqa: E402

from bench.quantised import quantised  # noqa: E402
from tests.models import weights  # noqa: E402

GRAPHS = ROOT / "tests" / "models" / "graphs"
# Quantised forms: of which export, and how.
QUANTISED = {
    "resnet.qdq": ("resnet.torchscript", "qdq"),
    "resnet.qoperator": ("resnet.torchscript", "qoperator"),
    "bert.qdq": ("bert.torchscript", "qdq"),
    "bert.qoperator": ("bert.torchscript", "qoperator"),
    "bert.dynamic": ("bert.torchscript", "dynamic"),
}


def prepare(module: Any) -> None:
    """Seeded parameters that tell: no scale is one, no bias nought, and products neither vanish nor grow."""
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim >= 2:
                wanted = (parameter.numel() / parameter.shape[0]) ** -0.5
                if parameter.std() < 0.5 * wanted:
                    parameter.normal_(0, wanted)
            elif parameter.numel() > 1 and parameter.std() < 0.05:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(0.1 * torch.randn_like(buffer))
            elif name.endswith("running_var"):
                buffer.mul_(1 + 0.5 * torch.rand_like(buffer))


def flat_feeds(export: Export) -> weights.Feeds:
    """The inputs of each Run by name."""
    return [
        {name: leaf.numpy() for name, leaf in zip(export.names, pytree.tree_leaves(run), strict=True)}
        for run in export.runs
    ]


def export_torchscript(export: Export, path: Path) -> None:
    """By tracing."""
    torch.onnx.export(
        export.module, export.runs[0], path, dynamo=False, input_names=export.names, output_names=export.outputs,
        dynamic_axes=export.axes, opset_version=17, do_constant_folding=True,
    )  # fmt: skip


def export_dynamo(export: Export, path: Path) -> None:
    """By torch.export."""
    _, spec = pytree.tree_flatten(export.runs[0])
    leaves = [{axis: torch.export.Dim.DYNAMIC for axis in export.axes.get(name, {})} or None for name in export.names]
    torch.onnx.export(
        export.module, export.runs[0], path, dynamo=True, input_names=export.names, output_names=export.outputs,
        dynamic_shapes=pytree.tree_unflatten(leaves, spec), opset_version=20, external_data=False, verbose=False,
    )  # fmt: skip


def quantise(source: Path, how: str, path: Path) -> weights.Feeds:
    """A quantised form of a committed graph, by ONNX Runtime's tools."""
    model, feeds = weights.load(source)
    if how == "dynamic":
        plain = path.with_suffix(".plain.onnx")
        onnx.save(model, plain)
        quantization.quantize_dynamic(plain, path, weight_type=quantization.QuantType.QUInt8)
    else:
        onnx.save(quantised(model, feeds, "QDQ" if how == "qdq" else "QOperator"), path)
    return feeds


def describe(path: Path) -> str:
    """Runs a file of `graphs/` on the CPU provider with each of its inputs; what came out."""
    model, feeds = weights.load(path)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    lines = []
    for feed in feeds:
        for output, array in zip(session.get_outputs(), session.run(None, feed), strict=True):
            wide = array.astype(np.float64)
            if array.size == 0 or not np.all(np.isfinite(wide)) or (array.dtype == np.float32 and wide.std() == 0):
                raise ValueError(f"output {output.name} {array.shape} is empty, constant or not finite")
            lines.append(f"{output.name}{list(array.shape)} std {wide.std():.3g}")
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return f"opset {opset}, {len(model.graph.node)} nodes; {'; '.join(lines[:2])}"


def write(name: str, model: onnx.ModelProto, feeds: weights.Feeds) -> None:
    """Writes a file of `graphs/` and says what it does; deletes it again when it does nothing."""
    path = GRAPHS / f"{name}.onnx.xz"
    path.write_bytes(weights.strip(model, feeds))
    try:
        print(f"{name}: {path.stat().st_size} bytes, {describe(path)}", flush=True)
    except Exception:
        path.unlink()
        raise


def export_one(entry: Entry, exporter: str, folder: Path) -> None:
    """Builds, exports and writes one model."""
    torch.manual_seed(zlib.crc32(entry.name.encode()))
    export = entry.build(exporter)
    prepare(export.module)
    path = folder / "model.onnx"
    with torch.no_grad():
        (export_torchscript if exporter == "torchscript" else export_dynamo)(export, path)
    write(f"{entry.name}.{exporter}", onnx.load(path), flat_feeds(export))


def main() -> None:
    """Exports what is asked for; ends with the list of what failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("names", nargs="*", help="models, or models with their exporter; all without one")
    parser.add_argument("--traceback", action="store_true", help="print where a failed export failed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that no exporter knows
    GRAPHS.mkdir(exist_ok=True)
    jobs: dict[str, Any] = {}
    for entry in (*vision.MODELS, *sequences.MODELS, *text.MODELS):
        for exporter in entry.exporters:
            jobs[f"{entry.name}.{exporter}"] = lambda folder, e=entry, x=exporter: export_one(e, x, folder)
    for name, (source, how) in QUANTISED.items():
        jobs[name] = lambda folder, n=name, s=source, h=how: write_quantised(n, s, h, folder)
    wanted = {name for name in jobs for asked in arguments.names if name == asked or name.startswith(asked + ".")}
    failed = []
    for name, job in jobs.items():
        if arguments.names and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                job(Path(folder))
            except Exception as error:
                failed.append(name)
                print(f"{name}: failed: {type(error).__name__}: {str(error).strip()[:600]}", flush=True)
                if arguments.traceback:
                    traceback.print_exc()
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def write_quantised(name: str, source: str, how: str, folder: Path) -> None:
    """Writes one quantised form."""
    path = folder / "model.onnx"
    feeds = quantise(GRAPHS / f"{source}.onnx.xz", how, path)
    write(name, onnx.load(path), feeds)


if __name__ == "__main__":
    main()
