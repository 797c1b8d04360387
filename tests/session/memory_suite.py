"""What must hold about memory on every supported host: run as a child process, one JSON line a check.

    python -m tests.session.memory_suite LIBRARY

Statistics, environment entries and callbacks have no Python interface: tests/session/test_memory_host.py has them.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native

from tests.session import models
from tests.session.suite import (
    EP,
    SkippedError,
    add_provider,
    devices,
    error_of,
    on_one_host,
    run_checks,
    session,
    session_options,
    simulated,
)

CODE_WORD = "[CUDAEP_OUT_OF_MEMORY]"
# The whole text of hosts where their own allocation of a copied input got nothing: ours is in the log then.
HOST_TEXT = "Allocation failed."
HOST = tuple(int(part) for part in ort.__version__.split(".")[:2])
SIZE = 256  # of product_chain


def rows(count: int) -> dict[str, np.ndarray]:
    return {"v0": np.ones((count, SIZE), np.float32)}


def check_malformed_values_are_refused_by_name() -> None:
    """Before the session exists, naming option and value; the process lives on."""
    cases = {
        "gpu_mem_limit": ["-1", "0", "1GB", "18446744073709551616"],
        "arena.enable": ["2", ""],
        "arena.use_cuda_mempool": ["yes"],
        "arena.max_mem": ["-1", "x", "99999999999999999999"],
        "arena.extend_strategy": ["kDouble", "2"],
        "arena_extend_strategy": ["kDouble", "-1"],
        "arena.initial_chunk_size_bytes": ["0", "-5"],
        "arena.max_dead_bytes_per_chunk": ["-1"],
        "arena.initial_growth_chunk_size_bytes": ["0x10"],
        "arena.max_power_of_two_extend_bytes": ["1e9"],
        "arena.cuda_mempool_release_threshold": ["all"],
        "arena.cuda_mempool_bytes_to_keep_on_shrink": ["9223372036854775808"],
        "gpu_external_alloc": ["0xzz"],
        "debug.fail_allocation": ["first"],
    }
    for name, values in cases.items():
        for value in values:
            text = error_of(lambda name=name, value=value: session(models.add_chain(1), {name: value}))
            assert f"{name}='{value}'" in text and "accepted:" in text, text
    text = error_of(lambda: session(models.add_chain(1), {"arena.size": "1"}))
    assert "unknown provider option 'arena.size'" in text, text
    assert session(models.add_chain(1)).run(None, {"v0": np.ones(2, np.float32), "b": np.ones(2, np.float32)})


def check_contradictions_are_refused() -> None:
    """Two options that cannot both be meant."""
    for options, expected in (
        ({"arena_extend_strategy": "0", "arena.extend_strategy": "1"}, "contradict"),
        ({"arena.enable": "0", "arena.use_cuda_mempool": "1"}, "contradict"),
        ({"gpu_external_alloc": "16"}, "gpu_external_free is not set"),
        ({"gpu_external_free": "16"}, "gpu_external_alloc is not set"),
        ({"gpu_external_alloc": "16", "gpu_external_free": "16", "arena.use_cuda_mempool": "1"}, "no meaning"),
        ({"gpu_external_alloc": "16", "gpu_external_free": "16", "arena.max_mem": "5"}, "no meaning"),
    ):
        text = error_of(lambda options=options: session(models.add_chain(1), options))
        assert expected in text, text


def check_every_mode_gives_the_same_numbers() -> None:
    """Arena, pool and none, with every arena option set to something unusual."""
    x = {"x": np.random.default_rng(3).standard_normal((2, 3, 32, 32), dtype=np.float32)}
    (expected,) = session(models.residual_network()).run(None, x)
    for options in (
        {"arena.enable": "0"},
        {"arena.use_cuda_mempool": "1"},
        {
            "arena.use_cuda_mempool": "1",
            "arena.cuda_mempool_release_threshold": "1000000000",
            "arena.cuda_mempool_bytes_to_keep_on_shrink": "1000",
        },
        {
            "arena.extend_strategy": "kSameAsRequested",
            "arena.initial_chunk_size_bytes": "4096",
            "arena.initial_growth_chunk_size_bytes": "1",
            "arena.max_dead_bytes_per_chunk": "0",
            "arena.max_power_of_two_extend_bytes": "1",
        },
        {"gpu_mem_limit": "1000000000", "arena.max_mem": "500000000"},
    ):
        with_options = session(models.residual_network(), options)
        for _ in range(3):
            np.testing.assert_array_equal(with_options.run(None, x)[0], expected)


def check_requests_are_recorded() -> None:
    """debug.record_allocations: what a session asked for, and where it cannot be written, a refusal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.txt"
        recorded = session(models.product_chain(3), {"debug.record_allocations": str(path)})
        recorded.run(None, rows(7))
        del recorded
        gc.collect()
        steps = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    asked = [step for step in steps if step[0] == "a"]
    assert asked and all(int(bytes_asked) > 0 for _, _, bytes_asked, _ in asked), steps
    assert len(asked) == sum(step[0] == "f" for step in steps), steps
    text = error_of(lambda: session(models.add_chain(1), {"debug.record_allocations": "/nowhere/record.txt"}))
    assert "/nowhere/record.txt" in text and "cannot be written" in text, text


def check_a_session_with_other_options_has_memory_of_its_own() -> None:
    """The limit of one session does not bound another, and equal ones work side by side."""
    plain = session(models.product_chain(3))
    small = session(models.product_chain(3), {"arena.max_mem": "3000000"})
    twin = session(models.product_chain(3), {"arena.max_mem": "3000000"})
    (expected,) = plain.run(None, rows(5000))
    assert error_of(lambda: small.run(None, rows(5000)))
    np.testing.assert_array_equal(plain.run(None, rows(5000))[0], expected)
    for limited in (small, twin, small):
        np.testing.assert_allclose(limited.run(None, rows(8))[0], expected[:8], rtol=1e-4, atol=1e-4)


def check_the_limit_holds_and_the_session_stays_usable() -> None:
    """Weights take their part of it, the error has code word and table, the next smaller Run works."""
    limit = 3 * 4 * SIZE * SIZE + (4 << 20)
    limited = session(models.product_chain(3), {"gpu_mem_limit": str(limit)})
    (expected,) = limited.run(None, rows(4))
    text = error_of(lambda: limited.run(None, rows(1500)))  # the input fits, the tensors of the nodes do not
    assert CODE_WORD in text and "product" in text, text
    assert f"limit {limit / (1 << 20):.1f} MiB".replace(".0 ", " ") in text, text
    for _ in range(3):
        np.testing.assert_array_equal(limited.run(None, rows(4))[0], expected)


def check_weights_are_charged_apart_from_the_arena() -> None:
    """Initialisers land in the allocator of their own: the account in the error names them."""
    limited = session(models.product_chain(4), {"gpu_mem_limit": str(8 << 20)})
    text = error_of(lambda: limited.run(None, rows(2500)))
    assert f"weights {4 * 4 * SIZE * SIZE >> 20} MiB" in text, text


def check_a_model_that_does_not_fit_fails_its_session() -> None:
    """With our text, and a smaller model works afterwards."""
    size, room = (512, 6 << 20) if simulated() else (2048, 96 << 20)  # NVIDIA's libraries may take 36 MiB of it
    limit = {"gpu_mem_limit": str(room)}
    text = error_of(lambda: session(models.product_chain(8, size), limit))  # weights of 8 or 128 MiB
    assert CODE_WORD in text, text
    assert session(models.product_chain(1), limit).run(None, rows(2))


@on_one_host
def check_convolutions_and_products_make_do_with_little_scratch_memory() -> None:
    """Under a limit far below what the fastest plan wants, results stay right; without any room they still do."""
    if not simulated():
        raise SkippedError("NVIDIA's libraries alone take more than these limits")
    for transposed in (False, True):
        model = models.convolution(64, transposed)
        x = {"x": np.random.default_rng(8).standard_normal((1, 64, 128, 128), dtype=np.float32)}
        (expected,) = session(model).run(None, x)
        tensors, weights = 2 * 4 * 64 * 128 * 128, 4 * 64 * 64 * 9
        for room in (16 << 20, 4 << 20, 3 << 20, 1 << 20):
            limit = str(tensors + 2 * weights + room)
            tight = {"gpu_mem_limit": limit, "arena.extend_strategy": "kSameAsRequested"}
            limited = session(model, tight)
            for _ in range(2):
                np.testing.assert_allclose(limited.run(None, x)[0], expected, rtol=1e-3, atol=1e-4)


def check_the_shrink_option_runs() -> None:
    """`memory.enable_memory_arena_shrinkage` of a Run; hosts before 1.25 do not know shrinking providers."""
    chain = session(models.product_chain(3))
    (expected,) = chain.run(None, rows(4))
    chain.run(None, rows(5000))
    options = ort.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "gpu:0")
    if HOST < (1, 25):
        raise SkippedError(f"host {ort.__version__}: " + error_of(lambda: chain.run(None, rows(4), options)))
    for _ in range(3):
        np.testing.assert_array_equal(chain.run(None, rows(4), options)[0], expected)


def check_the_callers_allocator_serves_a_session() -> None:
    """The guide's example for PyTorch, with device values of the host's in PyTorch's place; also on a user's stream."""
    stream = devices()[0].create_sync_stream()
    serve_from_the_caller({})
    serve_from_the_caller({"user_compute_stream": str(stream.get_handle())})


def serve_from_the_caller(more: dict[str, str]) -> None:
    blocks: dict[int, ort.OrtValue] = {}
    calls = {"alloc": 0, "empty": 0}

    def allocate(size: int) -> int:
        block = ort.OrtValue.ortvalue_from_shape_and_type([size], np.uint8, "gpu", 0, 0x10DE)
        blocks[block.data_ptr()] = block
        calls["alloc"] += 1
        return int(block.data_ptr())

    def empty_cache() -> None:
        calls["empty"] += 1

    stand_in = types.ModuleType("torch")
    stand_in.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        caching_allocator_alloc=allocate,
        caching_allocator_delete=lambda pointer: blocks.pop(pointer),
        empty_cache=empty_cache,
    )
    guide = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "memory.md").read_text()
    example = guide.split("```python\n")[1].split("```")[0]
    namespace: dict[str, Any] = {}
    with mock.patch.dict(sys.modules, torch=stand_in):
        exec(example, namespace)
    (expected,) = session(models.product_chain(3)).run(None, rows(100))
    external = session(models.product_chain(3), {**namespace["options"], **more})
    assert len(blocks) >= 3  # the weights
    for _ in range(3):
        np.testing.assert_array_equal(external.run(None, rows(100))[0], expected)
    del external
    gc.collect()
    assert not blocks, f"{len(blocks)} blocks of {calls['alloc']} were not given back"


def outcomes(
    model: bytes | str,
    feeds: dict[str, np.ndarray],
    indices: Iterator[int],
    tolerance: float,
    patience: int = 10,
    regions: str = "0",
) -> str:
    """Fails the request of each index once; returns a problem, or "".

    Ends after `patience` indices in a row that nothing came of: requests that the provider or the host did without.
    """

    def create(options: dict[str, str]) -> ort.InferenceSession:
        settings = session_options()
        settings.log_severity_level = 4
        add_provider(settings, {"compiled_regions": regions, **options})
        created = ort.InferenceSession(model, settings, enable_fallback=0)
        created.disable_fallback()
        return created

    expected = create({}).run(None, feeds)
    unharmed = failed = 0
    for index in indices:
        errors: list[str] = []
        try:
            victim = create({"debug.fail_allocation": str(index)})
        except Exception as error:
            if CODE_WORD not in str(error):
                return f"request {index}, at session creation: {error}"
            failed, unharmed = failed + 1, 0
            continue
        for attempt in range(4):
            try:
                found = victim.run(None, feeds)
            except Exception as error:
                errors.append(f"Run {attempt}: {error}")
                continue
            for a, b in zip(found, expected, strict=True):
                if not np.allclose(a, b, rtol=tolerance, atol=tolerance):
                    return f"request {index}, Run {attempt}: wrong numbers after {errors}"
        if len(errors) > 1 or any(CODE_WORD not in text and HOST_TEXT not in text for text in errors):
            return f"request {index}: {errors}"
        unharmed = 0 if errors else unharmed + 1
        failed += len(errors)
        if unharmed == patience:
            break
    return "" if failed >= 3 else f"only {failed} failures: the option had no effect"


def every() -> Iterator[int]:
    return iter(range(1, 5000))


def check_a_failure_at_every_request_of_a_chain() -> None:
    """Each ends in one error with the code word or in none, and the session works afterwards."""
    for regions in "01":
        problem = outcomes(models.product_chain(3), rows(7), every(), 0, regions=regions)
        assert not problem, problem


def check_a_failure_at_every_request_of_a_residual_network() -> None:
    """A scratch buffer that cannot be had changes the plan, so numbers may differ by rounding."""
    x = np.random.default_rng(4).standard_normal((2, 3, 24, 40), dtype=np.float32)
    for regions in "01":
        problem = outcomes(models.residual_network(), {"x": x}, every(), 1e-4, regions=regions)
        assert not problem, problem


def check_a_failure_at_every_request_of_a_mixer() -> None:
    """Normalization, softmax, movement of data and products."""
    x = np.random.default_rng(5).standard_normal((3, 8, 32), dtype=np.float32)
    for regions in "01":
        problem = outcomes(models.mixer(), {"x": x}, every(), 1e-4, regions=regions)
        assert not problem, problem


def check_a_failure_at_every_request_of_a_region_that_keeps_results() -> None:
    """Shape arithmetic, a mask, a table of cosines, and products that read them."""
    x = np.random.default_rng(7).standard_normal((2, 9, 8), dtype=np.float32)
    for regions in "01":
        problem = outcomes(models.masked_scores(), {"x": x}, every(), 1e-4, regions=regions)
        assert not problem, problem


@on_one_host
def check_failures_in_the_reading_models() -> None:
    """The three models of `make run`, each with some 300 to 700 requests: at every 111th, or $CUDAEP_FAILURE_STEP-th.

    Hosts start a third of a step apart, so that those of `make matrix` see others.
    """
    found = importlib.util.find_spec("rapidocr_onnxruntime")
    if found is None or found.origin is None:
        raise SkippedError("rapidocr_onnxruntime is not installed")
    step = int(os.environ.get("CUDAEP_FAILURE_STEP", "111"))
    first = HOST[1] // 3 % 3 * step // 3
    for path in sorted((Path(found.origin).parent / "models").glob("*.onnx")):
        x = np.random.default_rng(6).random((1, 3, 48 if "det" not in path.name else 64, 64), np.float32)
        for regions, part in (("0", 1), ("1", 8)):  # regions make fewer requests
            indices = iter(range(1 + first // part, 5000, max(1, step // part)))
            problem = outcomes(str(path), {"x": x}, indices, 1e-3, patience=2, regions=regions)
            assert not problem, f"{path.name}: {problem}"


def check_sessions_may_share_a_users_stream() -> None:
    """Its memory goes with the last of them, while the stream lives on; other sessions take their turns."""
    stream = devices()[0].create_sync_stream()
    options = {"user_compute_stream": str(stream.get_handle())}
    (expected,) = session(models.product_chain(3)).run(None, rows(50))
    for _ in range(3):
        pair = [session(models.product_chain(3), options) for _ in range(2)]
        for index in (0, 1, 0):
            np.testing.assert_array_equal(pair[index].run(None, rows(50))[0], expected)
        del pair[0]
        gc.collect()
        np.testing.assert_array_equal(pair[0].run(None, rows(50))[0], expected)
        del pair
        gc.collect()
        np.testing.assert_array_equal(session(models.product_chain(3)).run(None, rows(50))[0], expected)


def check_sessions_end_with_memory_in_any_state() -> None:
    """After a failed Run, with live outputs on the device, in either order."""
    for drop_first in (True, False):
        limited = session(models.product_chain(3), {"gpu_mem_limit": str(6 << 20)})
        binding = limited.io_binding()
        binding.bind_cpu_input("v0", rows(4)["v0"])
        # The short form of this call leaves the vendor out, which these hosts need to find the provider's memory.
        binding._iobinding.bind_output("v3", native.OrtDevice(1, 0, 0x10DE, 0))
        limited.run_with_iobinding(binding)
        error_of(lambda limited=limited: limited.run(None, rows(5000)))
        (value,) = binding.get_outputs()
        del binding
        if drop_first:
            del limited
        gc.collect()
        assert value.numpy().shape == (4, SIZE)


if __name__ == "__main__":
    assert EP
    run_checks(globals())
