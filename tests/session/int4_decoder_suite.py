"""A decoder with weights of 4 bits as onnxruntime-genai's model builder writes it (bench/int4_decoder.py).

python -m tests.session.int4_decoder_suite LIBRARY
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnxruntime as ort

from bench.int4_decoder import TINY, Decoder
from tests.session.region_fusion_suite import logged_fusions
from tests.session.region_support import APART, BASIC, joined, regions_of
from tests.session.suite import run_checks, session

FORMS = {
    "packed": TINY,
    "apart": replace(TINY, packed=False),
    "zero points": replace(TINY, zero_points=True, accuracy_level=4),
}
PROMPT, STEPS, BATCH = 6, 3, 2
TOLERANCE = {"float32": 1e-5, "float16": 3e-3}
_NVIDIA = 0x10DE


def _logits(run: ort.InferenceSession, decoder: Decoder, dtype: str, on_device: bool) -> Iterator[np.ndarray]:
    """Of a prompt and the tokens after it; past and present are one buffer, of random numbers at first."""
    place = ("gpu", 0, _NVIDIA) if on_device else ("cpu", 0)
    numbers = {name: x.astype(dtype) for name, x in decoder.feeds(BATCH, 1, 0).items() if x.dtype == np.float16}
    caches = {name: ort.OrtValue.ortvalue_from_numpy(x, *place) for name, x in numbers.items()}
    past = 0
    for tokens in (PROMPT, *[1] * STEPS):
        binding = run.io_binding()
        for name, array in decoder.feeds(BATCH, tokens, past).items():
            if name not in caches:
                binding.bind_cpu_input(name, array)
        for present, name in decoder.caches().items():
            binding.bind_ortvalue_input(name, caches[name])
            binding.bind_ortvalue_output(present, caches[name])
        binding.bind_output("logits", "cpu")
        run.run_with_iobinding(binding)
        yield binding.copy_outputs_to_cpu()[-1]
        past += tokens
    yield from (value.numpy().copy() for value in caches.values())  # a view where the host has it itself


def _error(mine: np.ndarray, other: np.ndarray) -> float:
    """As a share of the other's norm."""
    wide = other.astype(np.float32)
    return float(np.linalg.norm(mine.astype(np.float32) - wide) / np.linalg.norm(wide))


def check_every_form_is_one_region() -> None:
    for name, decoder in FORMS.items():
        for tokens, past in ((PROMPT, 0), (1, PROMPT)):
            found = regions_of(decoder.model("float16").SerializeToString(), decoder.feeds(BATCH, tokens, past))
            assert found == (1, []), (name, found)


def check_a_prompt_and_tokens_share_their_caches() -> None:
    """Logits of each Run and, at the end, the caches to their last row, beside those of the CPU provider in float."""
    for name, decoder in FORMS.items():
        exact = replace(decoder, accuracy_level=0).model("float32")  # the CPU provider would round activations to codes
        twin = ort.InferenceSession(exact.SerializeToString(), providers=["CPUExecutionProvider"])
        wanted = list(_logits(twin, decoder, "float32", False))
        assert not np.allclose(wanted[1], wanted[2], rtol=0.1)
        for dtype, tolerance in TOLERANCE.items():
            model = decoder.model(dtype).SerializeToString()
            apart = session(model, APART, cpu_allowed=True, level=BASIC)
            for run in (apart, joined(model), joined(model, {"fusion": "1"})):
                for mine, other in zip(_logits(run, decoder, dtype, True), wanted, strict=True):
                    assert _error(mine, other) < tolerance, (name, dtype, _error(mine, other))


def check_projections_are_one_product() -> None:
    """Queries, keys and values; where the model has them apart, too."""
    for name, decoder in FORMS.items():
        lines = [
            line
            for line in logged_fusions(decoder.model("float16").SerializeToString(), {})
            if "fusion projections: " in line
        ]
        assert [line.count("MatMulNBits node") for line in lines] == [3] * (0 if decoder.packed else decoder.layers), (
            name,
            lines,
        )


def check_each_gate_is_one_step() -> None:
    """Both products of a feed-forward layer and what lies between; results are those of the nodes one by one."""
    for name, decoder in FORMS.items():
        for dtype, tolerance in TOLERANCE.items():
            model = decoder.model(dtype).SerializeToString()
            gates = [line for line in logged_fusions(model, {}) if "fusion gated_products: " in line]
            assert [line.count("MatMulNBits node") for line in gates] == [2] * decoder.layers, (name, gates)
            runs = (joined(model, {"fusion": "1"}), joined(model))
            for mine, twin in zip(*(_logits(run, decoder, dtype, True) for run in runs), strict=True):
                assert _error(mine, twin) < tolerance, (name, dtype, _error(mine, twin))


if __name__ == "__main__":
    run_checks(globals())
