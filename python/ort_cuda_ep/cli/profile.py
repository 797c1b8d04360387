"""`ort-cuda-ep profile`: GPU time of each node of one model, as a table, a trace and a page for the browser."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import onnxruntime as ort
import typer
from rich.markup import escape

from .. import _provider
from ..feeds import FeedError, make_feeds
from ..host_profile import ProfileError
from ..profile import profile as profile_model
from ..profile import write_trace
from ..profile_page import Subject, write_page
from ..profile_times import NodeTime, Peaks, Profile, short_name
from .output import (
    BAD_INPUT,
    PROVIDER_FAILED,
    check_model,
    console,
    error_text,
    errors,
    exit_code_of,
    fail,
    parse_options,
    print_json,
    print_table,
)
from .parameters import AsJson, DeviceId, DeviceKind, Dims, Inputs, Model, Options, Seed, Shapes
from .timing import quiet_options

_MOST_SHOWN = 40  # lines of the table, unless --all is given
_NAME_WIDTH = 60


def profile(
    model: Model,
    out: Annotated[Path, typer.Option(help="folder for trace.json and profile.html")] = Path("ort-cuda-ep-profile"),
    inputs: Inputs = None,
    dim: Dims = None,
    shape: Shapes = None,
    option: Options = None,
    device: DeviceKind = "auto",
    device_id: DeviceId = 0,
    repeat: Annotated[int, typer.Option(help="measured runs", min=1)] = 10,
    warm_up: Annotated[int, typer.Option(help="runs before them", min=1)] = 3,
    peaks: Annotated[bool, typer.Option(help="measure the device's rates of copies and products, for percents")] = True,
    seed: Seed = 0,
    show_all: Annotated[
        bool, typer.Option("--all", help=f"a table of any length, not only {_MOST_SHOWN} lines")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show where the GPU time of MODEL goes: node, operator, kernel, calls, microseconds, percent of the device's peak.

    With --option enable_cuda_graph=1 the measured runs are replays. ONNX Runtime 1.25 and newer; on a GPU with CUPTI.
    """
    check_model(model, as_json)
    options = parse_options(option, as_json)

    def make_session(settings: ort.SessionOptions) -> ort.InferenceSession:
        return _provider.session(model, settings, options, device_id)

    try:
        _provider.register(device)
        label = _provider.device_label(device_id)
        entries = _provider.session(model, quiet_options(), {}, device_id).get_inputs()
    except Exception as error:
        fail(exit_code_of(error), error_text(error), as_json)
    try:
        feeds = make_feeds(entries, inputs, dim, shape, seed)
    except (FeedError, OSError, ValueError) as error:
        fail(BAD_INPUT, str(error), as_json)
    try:
        with errors.status("profiling") as status:
            if as_json:
                status.stop()
            found = profile_model(
                make_session,
                feeds,
                device_id=device_id,
                options=options,
                warm_up=warm_up,
                repeat=repeat,
                with_peaks=peaks,
                progress=lambda text: status.update(f"profiling: {text}"),
            )
    except ProfileError as error:
        fail(PROVIDER_FAILED, str(error), as_json)
    except Exception as error:
        fail(exit_code_of(error), error_text(error), as_json)
    subject = Subject(model.name, label, ort.__version__, options, {name: a.shape for name, a in feeds.items()})
    trace, page = out / "trace.json", out / "profile.html"
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_trace(found, trace)
        write_page(found, subject, page)
    except OSError as error:
        fail(BAD_INPUT, f"{out}: {error}", as_json)
    if as_json:
        print_json(_report(model, label, found, trace, page))
    else:
        _print(label, found, trace, page, None if show_all else _MOST_SHOWN)


def _report(model: Path, label: str, found: Profile, trace: Path, page: Path) -> dict[str, Any]:
    return {
        "ok": True,
        "model": str(model),
        "host": ort.__version__,
        "device": label,
        "simulated": found.simulated,
        "runs": found.runs,
        "time_us": {
            "run": found.host_us,
            "device_busy": found.span_us,
            "nodes": found.node_us,
            "copies": found.copy_us,
        },
        "peaks": {
            "bytes_per_s": found.peaks.bytes_per_s,
            "flops_per_s": dict(found.peaks.products),
            "not_measured": dict(found.peaks.failed),
        },
        "nodes": [asdict(node) for node in found.nodes],
        "trace": str(trace),
        "page": str(page),
    }


def _print(label: str, found: Profile, trace: Path, page: Path, most: int | None) -> None:
    for heading, text in (
        ("host", f"ONNX Runtime {ort.__version__}"),
        ("device", label),
        ("run", f"{found.host_us:.1f} us for its caller, the median of {found.runs}"),
        (
            "on device",
            f"busy {found.span_us:.1f} us a run: nodes {found.node_us:.1f}, the host's copies {found.copy_us:.1f}",
        ),
        ("peaks", _peaks_text(found.peaks)),
    ):
        console.print(f"{heading:<10} {escape(text)}", highlight=False, soft_wrap=True)
    columns = ("node", "operator", "kernel", "calls", "us", "time", "of peak")
    print_table("time of nodes on the device, a run", columns, [_row(node) for node in found.nodes], most)
    console.print(f"\n{'trace':<10} {escape(str(trace))} (Perfetto, chrome://tracing)", highlight=False, soft_wrap=True)
    console.print(f"{'page':<10} {escape(str(page))}", highlight=False, soft_wrap=True)


def _row(node: NodeTime) -> tuple[str, ...]:
    kernel = short_name(node.kernels[0].name)
    kernel = kernel if len(kernel) <= _NAME_WIDTH else f"{kernel[: _NAME_WIDTH - 3]}..."
    more = f" and {len(node.kernels) - 1} more" if len(node.kernels) > 1 else ""
    percent = "" if node.percent is None else f"{node.percent:.0f}% {node.limit}"
    return node.name, node.op_type, kernel + more, f"{node.calls:g}", f"{node.us:.1f}", f"{node.share:.1%}", percent


def _peaks_text(peaks: Peaks) -> str:
    rates = [f"{rate / 1e12:.3g} TFLOP/s in a product of {kind}" for kind, rate in peaks.products.items()]
    if peaks.bytes_per_s:
        rates.insert(0, f"{peaks.bytes_per_s / 1e9:.0f} GB/s in a copy")
    texts = [f"measured: {'; '.join(rates)}"] if rates else []
    texts += [f"not measured: {what}: {reason}" for what, reason in peaks.failed.items()]
    return "; ".join(texts) or "not measured"
