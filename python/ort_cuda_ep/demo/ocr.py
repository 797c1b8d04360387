"""`python -m ort_cuda_ep.demo.ocr`: reads the text in a picture with RapidOCR's three models on the provider.

RapidOCR is as it comes; `install()` gives it the provider. The demo prints the text, then for each model where its
nodes ran, how long it took and how far it is from the CPU provider on the very inputs the pipeline gave it. Exit code
1: the text or numbers are wrong, or a compute node ran elsewhere.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnxruntime as ort
import typer
from rapidocr_onnxruntime import RapidOCR
from rich.table import Table

from .. import _drop_in, _provider
from ..cli.output import CHECK_FAILED, PROVIDER_FAILED, console, errors, fail, print_json
from ..comparison import Difference, compare
from ..placement import run_profiled
from .picture import LINES, draw_lines

CPU = "CPUExecutionProvider"
ATOL = RTOL = 2e-3
# The picture is small: without this RapidOCR scales it up to 736 pixels, six times the work for the same text.
SETTINGS = {"det_limit_side_len": 288, "det_limit_type": "min"}
# Full fp32, since the numbers are compared with the CPU provider's: TF32 alone differs by some 1e-2. And no plans
# chosen by timing, which RapidOCR asks for: 20 seconds on the simulated device.
DEFAULTS = {"use_tf32": False, "deterministic_compute": True}
ON_CUDA = {"det_use_cuda": True, "cls_use_cuda": True, "rec_use_cuda": True}


class RecordedModel:
    """Stands where the pipeline has a session, and keeps every input that it was given."""

    def __init__(self, owner: Any) -> None:
        """`owner` is the part of the pipeline that holds the session."""
        self.session: ort.InferenceSession = owner.session
        self.path = Path(self.session._model_path)
        self.feeds: list[dict[str, np.ndarray]] = []
        owner.session = self

    def __getattr__(self, name: str) -> Any:
        """Everything else is the session's."""
        return getattr(self.session, name)

    def run(self, names: list[str], feed: dict[str, np.ndarray]) -> Any:
        """Runs the session and records its input."""
        self.feeds.append(feed)
        return self.session.run(names, feed)

    def open(self, options: ort.SessionOptions) -> ort.InferenceSession:
        """Another session of the model with the providers that the pipeline's has."""
        settings = self.session.get_provider_options()
        return ort.InferenceSession(
            self.path, options, [(name, settings[name]) for name in self.session.get_providers()]
        )


@dataclass(frozen=True)
class ModelResult:
    """What one model did: nodes by place, milliseconds per run, difference to the CPU provider."""

    name: str
    compute_on_provider: int
    compute_elsewhere: list[str]
    shape_nodes: int
    runs: int
    time_ms: float
    difference: Difference

    @property
    def ok(self) -> bool:
        """Whether every compute node is ours and the numbers are right."""
        return not self.compute_elsewhere and self.compute_on_provider > 0 and self.difference.ok


def main(
    device: Annotated[str, typer.Option(help="auto, cuda or sim")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object instead of text")] = False,
    provider: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Read a picture's text with three real models on the provider and check everything."""
    try:
        if provider != "cpu":
            _drop_in.install(device, provider_options=DEFAULTS)  # type: ignore[arg-type]
        with errors.status("reading the picture"):
            start = time.perf_counter()
            engine = RapidOCR(**SETTINGS, **({} if provider == "cpu" else ON_CUDA))
            owners = (engine.text_det.infer, engine.text_cls.infer, engine.text_rec.session)
            models = [RecordedModel(owner) for owner in owners]
            load_s = time.perf_counter() - start
            start = time.perf_counter()
            lines, _ = engine(draw_lines())
            read_s = time.perf_counter() - start
        results = []
        for model in models:
            with errors.status(f"checking {model.path.stem} against the CPU provider"):
                results.append(_check(model))
        label = "CPU" if provider == "cpu" else _provider.device_label()
    except Exception as error:
        fail(PROVIDER_FAILED, str(error), as_json)
    text = tuple(line[1] for line in lines or [])
    text_ok = [_squeeze(line) for line in text] == [_squeeze(line) for line in LINES]
    ok = text_ok and len(results) == 3 and all(result.ok for result in results)
    if as_json:
        seconds = {"load_s": load_s, "read_s": read_s}
        details = [{**asdict(result), "ok": result.ok} for result in results]
        print_json({"ok": ok, "device": label, "text": text, "expected": LINES, **seconds, "models": details})
    else:
        _print(text, text_ok, results, f"{label}, ONNX Runtime {ort.__version__}", load_s, read_s)
    if not ok:
        raise typer.Exit(CHECK_FAILED)


def _check(model: RecordedModel) -> ModelResult:
    """Runs the recorded inputs again, timed, profiled, and on the CPU provider."""
    times = []
    for feed in model.feeds:
        start = time.perf_counter()
        model.session.run(None, feed)
        times.append((time.perf_counter() - start) * 1e3)
    placement, outputs = run_profiled(model.open, model.path, model.feeds)
    reference = ort.InferenceSession(model.path, providers=[CPU])
    differences = [
        compare(actual, reference.run(None, feed), ATOL, RTOL)
        for actual, feed in zip(outputs, model.feeds, strict=True)
    ]
    worst = Difference(
        max((d.max_abs for d in differences), default=float("nan")),
        max((d.max_rel for d in differences), default=float("nan")),
        bool(differences) and all(d.ok for d in differences),
    )
    name = model.session.get_providers()[0]
    elsewhere = [f"{node.op_type} {node.name}" for node in placement.compute_elsewhere(name)]
    mean = sum(times) / max(len(times), 1)
    ours = len(placement.compute_on(name))
    return ModelResult(model.path.stem, ours, elsewhere, placement.count("shape"), len(times), mean, worst)


def _squeeze(line: str) -> str:
    """The recogniser often drops the spaces of English text; letters, digits and their order must be right."""
    return line.replace(" ", "")


def _print(
    text: tuple[str, ...], text_ok: bool, results: list[ModelResult], label: str, load_s: float, read_s: float
) -> None:
    def verdict(ok: bool) -> str:
        return "[green]ok[/green]" if ok else "[red]WRONG[/red]"

    console.print(f"device: {label}", highlight=False)
    console.print(f"text, read in {read_s:.2f} s after {load_s:.2f} s of loading: {verdict(text_ok)}", highlight=False)
    for line in text:
        console.print(f"  {line}", highlight=False, markup=False)
    if not text_ok:
        console.print("expected:", *LINES, sep="\n  ", highlight=False, markup=False)
    table = Table("model", "compute nodes ours", "elsewhere", "shape nodes", "runs", "ms/run", "largest difference", "")
    for result in results:
        counts: list[Any] = [result.compute_on_provider, len(result.compute_elsewhere), result.shape_nodes, result.runs]
        numbers = [str(count) for count in counts]
        difference = f"{result.difference.max_abs:.2e}"
        table.add_row(result.name, *numbers, f"{result.time_ms:.1f}", difference, verdict(result.ok))
    console.print(table)
    for result in results:
        for node in result.compute_elsewhere[:10]:
            console.print(f"  {result.name}: {node} did not run on the provider", highlight=False, markup=False)


if __name__ == "__main__":
    typer.run(main)
