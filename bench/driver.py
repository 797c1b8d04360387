"""The parent: cases one after the other, subjects in turn (A B B A ...), so that drift hits all alike."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bench.cases import Case
from bench.subjects import MODELS, Subject

Reply = dict[str, Any]
COPY_BYTES = 512 << 20
_MOST_BYTES_INSIDE = 1 << 30
_SERIES = ("wall_us", "device_us", "span_us", "activities")


class Child:
    """A worker and the pipes to it. A worker that dies is an error of its case and is started again for the next."""

    def __init__(self, subject: Subject) -> None:
        """Starts nothing yet."""
        self.subject = subject
        self._process: subprocess.Popen[str] | None = None

    def ask(self, action: str, **request: Any) -> Reply:
        """The worker's reply; {"error": text} when it fails or dies."""
        if self._process is None and action == "close":
            return {}
        if self._process is None:
            command = [sys.executable, "-m", "bench.worker", json.dumps(asdict(self.subject))]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, text=True, env=self.subject.environment()
            )
            if action != "hello":
                hello = self.ask("hello")
                if "error" in hello:
                    return hello
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps({"do": action, **request}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            reply: Reply = json.loads(line)
            return reply
        status = self._process.wait()
        self._process = None
        return {"error": f"the worker ended with exit code {status}"}

    def end(self) -> None:
        """Lets the worker finish."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


class Driver:
    """Measures; `say` gets a line for whatever a person may want to see."""

    def __init__(self, subjects: Sequence[Subject], folder: Path, tiny: bool, repeats: int, say: Any = print) -> None:
        """`folder` takes models and arrays while the driver lives; `tiny` sizes need no cold caches."""
        self._children = [Child(subject) for subject in subjects]
        self._folder, self._tiny, self._repeats, self._say = folder, tiny, repeats, say

    def hello(self) -> dict[str, Reply]:
        """What each subject runs on; subjects that do not start are left out from then on."""
        replies = {child.subject.name: child.ask("hello") for child in self._children}
        for name, reply in replies.items():
            if "error" in reply:
                self._say(f"{name}: {reply['error']}")
        self._children = [child for child in self._children if "error" not in replies[child.subject.name]]
        return replies

    def measure_copy(self) -> dict[str, Reply]:
        """The device's own copy in each worker with a GPU."""
        children = [child for child in self._children if child.subject.kind in ("plugin", "builtin")]
        results = self._interleave(children, {"copy_bytes": COPY_BYTES})
        return {name: result for name, result in results.items() if "error" not in result}

    def measure(self, case: Case) -> dict[str, Reply]:
        """Results of every subject that takes the case."""
        children = [child for child in self._children if child.subject.takes(case.name, case.group)]
        try:
            request = self._prepare(case)
        except Exception as error:  # a model from a file may be one that the host refuses
            return {child.subject.name: {"error": f"no reference: {error}"[:2000]} for child in children}
        results = self._interleave(children, request)
        for path in (request["inputs"], request["expected"]):
            Path(path).unlink()
        return results

    def end(self) -> None:
        """Ends the workers."""
        for child in self._children:
            child.end()

    def _interleave(self, children: Sequence[Child], request: dict[str, Any]) -> dict[str, Reply]:
        results = {child.subject.name: child.ask("open", **request) for child in children}
        for result in results.values():
            result.update({key: [] for key in _SERIES} if "error" not in result else {})
        for repeat in range(self._repeats):
            # Back and forth, so that nobody always comes after the same neighbour.
            for child in children if repeat % 2 == 0 else reversed(children):
                result = results[child.subject.name]
                if "error" in result:
                    continue
                reply = child.ask("measure")
                if "error" in reply:
                    results[child.subject.name] = reply
                for key in _SERIES:
                    if key in reply:
                        result[key].append(reply[key])
                if repeat == 0 and "device_us" in reply:
                    result["clocks"] = clocks()
        for child in children:
            result = results[child.subject.name]
            reply = child.ask("close")
            if "error" not in result:
                result.update(reply)
        return results

    def _prepare(self, case: Case) -> dict[str, Any]:
        """Files for the workers: the model (once for all its cases), the inputs, and what the outputs should be."""
        model, twin = (self._model(case, dtype) for dtype in (case.dtype, "float32" if case.twin else case.dtype))
        feeds, sample = case.feeds(), case.sample()
        rows = slice(None) if sample is None else sample
        wide = {
            name: (array[rows] if array.shape[:1] == (case.rows,) else array).astype(
                np.float32 if case.twin and array.dtype == np.float16 else array.dtype
            )
            for name, array in feeds.items()
        }
        stem = self._folder / case.name.replace("/", "_")
        np.savez(f"{stem}.inputs.npz", allow_pickle=False, **feeds)  # before a reference in place changes them
        expected = _reference(twin, wide, case.in_place)
        dims = {
            name: [case.rows, *array.shape[1:]] if sample is not None else list(array.shape)
            for name, array in expected.items()
        }
        np.savez(f"{stem}.expected.npz", allow_pickle=False, **expected)
        return {
            "model": str(model),
            "module": case.model_key,
            "inputs": f"{stem}.inputs.npz",
            "expected": f"{stem}.expected.npz",
            "outputs": dims,
            "sample": None if sample is None else sample.tolist(),
            "dtypes": {
                name: case.dtype if array.dtype.kind == "f" else str(array.dtype) for name, array in expected.items()
            },
            "in_place": case.in_place,
            "tolerance": case.tolerance,
            "rotate": case.rotate,
            "optimised": case.optimised,
            "launches": case.launches,
            "is_model": case.group in MODELS.split(","),
            "tiny": self._tiny,
        }

    def _model(self, case: Case, dtype: str) -> Path:
        path = self._folder / f"{(case.model_key or case.name).replace('/', '_')}.{dtype}.onnx"
        if not path.is_file():
            save(case.model(dtype), path)
        return path


def clocks() -> Reply:
    """What the first GPU runs at just now: sm and memory in MHz, watts, degrees; {} where no nvidia-smi tells it."""
    fields = {"sm_mhz": "clocks.sm", "memory_mhz": "clocks.mem", "watts": "power.draw", "celsius": "temperature.gpu"}
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
        return dict(zip(fields, map(float, done.stdout.split(",")), strict=True))
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


def save(model: onnx.ModelProto, path: Path) -> None:
    """Writes a model; one whose weights do not fit into a file of the format has them beside it."""
    large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > _MOST_BYTES_INSIDE
    onnx.save_model(model, str(path), save_as_external_data=large, location=f"{path.name}.data")


def _reference(model: Path, feeds: dict[str, np.ndarray], in_place: dict[str, str]) -> dict[str, np.ndarray]:
    """The outputs by the CPU provider of this environment's host, where they lie `in_place` of an input too."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    names = [output.name for output in session.get_outputs()]
    for name in names:
        if name in in_place:
            binding.bind_ortvalue_output(name, values[in_place[name]])
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding)
    return dict(zip(names, binding.copy_outputs_to_cpu(), strict=True))


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Where models and arrays lie while a run lasts."""
    return tempfile.TemporaryDirectory(prefix="bench-")
