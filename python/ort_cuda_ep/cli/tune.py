"""`ort-cuda-ep tune`: measures the library plans of one model, and keeps them in a file."""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import onnxruntime as ort
import typer
from rich.markup import escape

from .. import _provider
from ..feeds import FeedError, make_feeds
from .output import (
    BAD_INPUT,
    CHECK_FAILED,
    check_model,
    console,
    error_text,
    exit_code_of,
    fail,
    parse_options,
    print_json,
)
from .parameters import AsJson, DeviceId, DeviceKind, Dims, Inputs, Model, Options, Seed, Shapes
from .timing import quiet_options, time_runs

# What makes a session use measured plans; the other one makes those that are missing.
USE = {"cudnn_conv_algo_search": "EXHAUSTIVE", "tunable_op_enable": "1"}
MEASURE = {"tunable_op_tuning_enable": "1"}
# Options under which nothing would be measured or kept: the values that do no harm, and why others do.
UNFIT = {
    "plan_cache.enable": (("1", "true", "True"), "plans would not be kept"),
    "deterministic_compute": (("0", "false", "False"), "deterministic sessions use no measured plan"),
}


def has_plans(path: Path) -> bool:
    """Whether a file of plans has measured ones."""
    return path.is_file() and b" measured" in path.read_bytes()


def tune(
    model: Model,
    plans: Annotated[Path, typer.Option(help="file of plans; what it has is kept")],
    inputs: Inputs = None,
    dim: Dims = None,
    shape: Shapes = None,
    option: Options = None,
    device: DeviceKind = "auto",
    device_id: DeviceId = 0,
    repeat: Annotated[int, typer.Option(help="timed runs before and after", min=1)] = 20,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure plans of convolutions and matrix products of MODEL for these shapes, and keep them in a file.

    Call it once for each set of shapes that will be served; a file gathers them.
    """
    check_model(model, as_json)
    options = parse_options(option, as_json) | {"plan_cache.path": str(plans)}
    for key, reason in UNFIT.items():
        if key in options and options[key] not in reason[0]:
            fail(BAD_INPUT, f"{key}={options[key]}: {reason[1]}", as_json)
    try:
        _provider.register(device)
        label = _provider.device_label(device_id)
        plain = _provider.session(model, quiet_options(), options, device_id)
    except Exception as error:
        fail(exit_code_of(error), error_text(error), as_json)
    try:
        feeds = make_feeds(plain.get_inputs(), inputs, dim, shape, seed)
    except (FeedError, OSError, ValueError) as error:
        fail(BAD_INPUT, str(error), as_json)
    try:
        before = time_runs(plain, feeds, repeat, as_json)
        start = time.perf_counter()
        _provider.session(model, quiet_options(), options | USE | MEASURE, device_id).run(None, feeds)
        spent = time.perf_counter() - start
        tuned = _provider.session(model, quiet_options(), options | USE, device_id)
        after = time_runs(tuned, feeds, repeat, as_json)
    except Exception as error:
        fail(exit_code_of(error), error_text(error), as_json)
    if not has_plans(plans):
        fail(CHECK_FAILED, f"no measured plan is in {plans}: it cannot be written, a memory limit leaves no room to "
             "measure in, or no library runs a convolution or matrix product of this model", as_json)  # fmt: skip
    use = options | USE
    if as_json:
        print_json(
            {
                "ok": True,
                "model": str(model),
                "host": ort.__version__,
                "device": label,
                "before_ms": float(np.median(before)),
                "after_ms": float(np.median(after)),
                "measuring_s": spent,
                "options": use,
            }
        )
        return
    for heading, text in (
        ("host", f"ONNX Runtime {ort.__version__}"),
        ("device", label),
        ("before", f"median {np.median(before):.3f} ms a run"),
        ("after", f"median {np.median(after):.3f} ms a run; measuring took {spent:.1f} s"),
        ("options", " ".join(f"{key}={value}" for key, value in use.items())),
    ):
        console.print(f"{heading:<10} {escape(text)}", highlight=False, soft_wrap=True)
