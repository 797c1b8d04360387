"""One replica: a session on one device, requests in batches, errors as HTTP statuses. No part of it knows Ray.

`Replica.predict_batch` takes what requests brought and returns an answer for each, always: what cannot be served is an
`Answer` that says so.
"""

import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ort_cuda_ep
from ort_cuda_ep import diagnosis, selftest

# What the provider and the host say when device memory does not suffice.
_MEMORY_TEXTS = ("CUDAEP_OUT_OF_MEMORY", "Allocation failed", "Failed to allocate")
# The replica is of no use any more, and Ray Serve will replace it: another one may answer.
_LOST = "DEVICE_LOST"


@dataclass(frozen=True)
class Answer:
    """An HTTP status with its text, which is JSON for 200."""

    status: int
    text: str


class Replica:
    """A model whose inputs and outputs have the batch as their first dimension; it has one input."""

    def __init__(self, model: str, device: str, options: dict[str, str]) -> None:
        ort_cuda_ep.register(device)
        # Ray shows each replica its own GPU alone, so that is device 0 of the process.
        self._session = ort_cuda_ep.session(model, provider_options=options)
        self._device = device
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise ValueError(f"{model} has {len(inputs)} inputs; this server is for models with one")
        self._input = inputs[0]
        self._outputs = [output.name for output in self._session.get_outputs()]
        self.answers: dict[int, int] = {}
        self.batches = 0

    def read(self, body: bytes) -> np.ndarray | Answer:
        """The sample of a request: an .npy file of the input's element type and shape, without the batch."""
        try:
            sample = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
        except (ValueError, EOFError, OSError, MemoryError) as error:  # of memory: what the header asks for
            return self._count(Answer(400, f"the request's body is no .npy file: {error}"))
        wanted = self._input.type.removeprefix("tensor(").removesuffix(")").replace("float", "float32")
        wanted = {"double": "float64", "float3216": "float16"}.get(wanted, wanted)
        if str(sample.dtype) != wanted:
            return self._count(Answer(400, f"the input {self._input.name} is {wanted}, not {sample.dtype}"))
        shape = self._input.shape[1:]
        fits = len(shape) == sample.ndim and all(
            size == given for size, given in zip(shape, sample.shape, strict=True) if isinstance(size, int)
        )
        if not fits or 0 in sample.shape:
            return self._count(Answer(400, f"a sample of {self._input.name} is {shape}, not {list(sample.shape)}"))
        return np.ascontiguousarray(sample)

    def predict_batch(self, samples: Sequence[np.ndarray]) -> list[Answer]:
        """The answers, in order. Samples of one shape run together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, sample in enumerate(samples):
            groups.setdefault(sample.shape, []).append(i)
        answers: list[Answer] = [Answer(500, "no answer")] * len(samples)
        for indices in groups.values():
            for i, answer in zip(indices, self._run([samples[i] for i in indices]), strict=True):
                answers[i] = self._count(answer)
        return answers

    def _run(self, samples: list[np.ndarray]) -> list[Answer]:
        self.batches += 1
        try:
            found = self._session.run(self._outputs, {self._input.name: np.stack(samples)})
        except Exception as error:  # the host has no narrower class
            out_of_memory = any(text in str(error) for text in _MEMORY_TEXTS)
            if out_of_memory and len(samples) > 1:  # half of it may fit
                middle = len(samples) // 2
                return self._run(samples[:middle]) + self._run(samples[middle:])
            is_for_another = out_of_memory or _LOST in str(error)
            return [Answer(503 if is_for_another else 500, str(error))] * len(samples)
        return [
            Answer(200, json.dumps({name: value[i].tolist() for name, value in zip(self._outputs, found, strict=True)}))
            for i in range(len(samples))
        ]

    def _count(self, answer: Answer) -> Answer:
        self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
        return answer

    def check(self) -> None:
        """Raises where the device does not compute what it should; a lost one never does again."""
        outcome = selftest.run(0)
        if outcome.error:
            raise RuntimeError(outcome.error)

    def problems(self) -> list[dict[str, str]]:
        """What `ort-cuda-ep doctor --json` would list as problems."""
        found = diagnosis.diagnose(self._device)
        return [
            {"section": one.section, "subject": one.subject, "detail": one.detail, "advice": one.advice}
            for one in found
            if one.state == diagnosis.PROBLEM
        ]

    def figures(self) -> dict[str, Any]:
        """The provider's statistics with the replica's own."""
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        own = {"answers": dict(self.answers), "batches": self.batches, "resident_bytes": resident}
        return {"provider": ort_cuda_ep.statistics(), "replica": own}
