"""Memory as a C++ application sees it: statistics, environment entries, callbacks; on the oldest and newest host.

Python has no interface to these; `memory_host` (tests/session/memory_host) has, and prints what it saw.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.session import models
from tests.session.programs import VERSIONS, Program

SIZE = 256
WEIGHTS = 3 * 4 * SIZE * SIZE
FACTORY = "ep_factory.CUDAExecutionProvider."


class MemoryHost(Program):
    """Calling it runs the steps of its command line and returns what it printed."""

    def __init__(self, version: str, library: str, folder: Path) -> None:
        super().__init__("memory_host", version, library)
        self._model = folder / "model.onnx"
        self._model.write_bytes(models.product_chain(3, SIZE))

    def use(self, model: bytes) -> None:
        self._model.write_bytes(model)

    def __call__(self, *steps: str) -> dict[str, Any]:
        child = self.run(self.host, self.library, self._model, *steps)
        result: dict[str, Any] = json.loads(child.stdout)
        result["log"] = child.stderr
        return result


@pytest.fixture(params=VERSIONS)
def host(request: pytest.FixtureRequest, test_library: str, tmp_path: Path) -> MemoryHost:
    return MemoryHost(request.param, test_library, tmp_path)


def number(result: dict[str, Any], step: str, key: str, allocator: str = "tensors") -> int:
    return int(result["stats"][step][allocator][key])


def test_statistics_are_reachable_and_add_up(host: MemoryHost) -> None:
    result = host("--open", "--run", "4", "--stats", "small", "--run", "4000", "--stats", "large", "--close")
    assert result["error"] == ""
    for step, rows in (("small", 4), ("large", 4000)):
        assert number(result, step, "InUse") == 0
        assert number(result, step, "MaxInUse") >= 2 * 4 * rows * SIZE
        assert number(result, step, "TotalAllocated") >= number(result, step, "InUse")
        assert number(result, step, "MaxAllocSize") >= 4 * rows * SIZE
    assert number(result, "large", "NumAllocs") > number(result, "small", "NumAllocs") > 0
    assert number(result, "large", "NumArenaExtensions") > 0


def test_shared_allocators_answer_before_any_session(host: MemoryHost) -> None:
    stats = host("--stats", "start")["stats"]["start"]
    assert set(stats) == {"tensors", "weights", "pinned"}
    for name in ("InUse", "TotalAllocated", "MaxInUse", "Limit", "NumAllocs", "NumReserves", "NumArenaExtensions"):
        assert all(allocator[name] == "0" for allocator in stats.values()), name


def test_a_session_without_options_shares_the_environments_memory(host: MemoryHost) -> None:
    result = host("--open", "--run", "4", "--close", "--stats", "shared")
    assert number(result, "shared", "NumAllocs") > 0
    assert number(result, "shared", "BudgetCharged") == 0  # everything went back with the session


def test_a_session_with_options_does_not(host: MemoryHost) -> None:
    result = host("--session", "ep.cuda.arena.max_mem=100000000", "--open", "--run", "4", "--stats", "own", "--close",
                  "--stats", "shared")  # fmt: skip
    assert number(result, "own", "NumAllocs") > 0
    assert number(result, "own", "Limit") == 100000000
    assert number(result, "shared", "NumAllocs") == 0


def test_weights_are_not_in_the_arena(host: MemoryHost) -> None:
    result = host("--open", "--run", "1", "--stats", "run", "--close")
    assert number(result, "run", "MaxInUse") < WEIGHTS


def test_shrinking_brings_the_footprint_back(host: MemoryHost) -> None:
    if host.version < (1, 25):
        pytest.skip("hosts before 1.25 cannot shrink a plug-in's memory")
    result = host("--open", "--run", "4", "--stats", "small", "--run", "20000", "--stats", "giant",
                  "--run-entry", "memory.enable_memory_arena_shrinkage=gpu:0", "--run", "4", "--stats", "after",
                  "--close")  # fmt: skip
    assert result["error"] == ""
    assert number(result, "giant", "TotalAllocated") > 4 * 20000 * SIZE
    assert number(result, "after", "TotalAllocated") <= 1.05 * number(result, "small", "TotalAllocated")


def test_shrinking_brings_scratch_memory_back(host: MemoryHost) -> None:
    """That of sorting a giant batch; the next Run takes what it needs."""
    if host.version < (1, 25):
        pytest.skip("hosts before 1.25 cannot shrink a plug-in's memory")
    host.use(models.scratch_users(SIZE))
    result = host("--open", "--run", "4", "--stats", "small", "--run", "4000", "--stats", "giant",
                  "--run-entry", "memory.enable_memory_arena_shrinkage=gpu:0", "--run", "4", "--stats", "shrunk",
                  "--run", "4", "--stats", "after", "--close")  # fmt: skip
    assert result["error"] == ""
    small, giant, shrunk, after = (
        number(result, step, "BudgetWorkspace", "shared") for step in ("small", "giant", "shrunk", "after")
    )
    assert giant > 10 * small > 0
    assert max(shrunk, after) <= 1.05 * small


@pytest.mark.parametrize("name", ["arena.max_mem=x", "arena.max_mem=-1", "arena.enable=2", "arena.size=1"])
def test_malformed_environment_entries_fail_the_registration_by_name(host: MemoryHost, name: str) -> None:
    error = host("--env", FACTORY + name)["error"]
    assert f"environment entry {FACTORY}{name.split('=')[0]}: " in error


def test_environment_entries_are_what_sessions_start_from(host: MemoryHost) -> None:
    result = host("--env", FACTORY + "arena.max_mem=200000000", "--open", "--run", "4", "--stats", "inherits",
                  "--session", "ep.cuda.arena.max_mem=300000000", "--open", "--run", "4", "--stats", "overrides",
                  "--close", "--close", "--stats", "shared")  # fmt: skip
    assert result["error"] == ""
    assert number(result, "shared", "Limit") == number(result, "inherits", "Limit") == 200000000
    assert number(result, "overrides", "Limit") == 300000000


def test_an_application_may_replace_the_shared_allocator(host: MemoryHost) -> None:
    result = host("--shared", "arena.max_mem=400000000", "--stats", "shared")
    assert result["error"] == ""
    assert number(result, "shared", "Limit") == 400000000
    assert "arena.max_mem='-1' is malformed" in host("--shared", "arena.max_mem=-1")["error"]


def test_sessions_on_the_environments_allocators_run(host: MemoryHost) -> None:
    """The host's own switch: the session's options cannot hold then, and nothing breaks."""
    result = host("--session", "session.use_env_allocators=1", "--session", "ep.cuda.arena.max_mem=100000000", "--open",
                  "--run", "4", "--run", "400", "--close", "--stats", "shared")  # fmt: skip
    assert result["error"] == ""
    assert number(result, "shared", "NumAllocs") > 0
    assert number(result, "shared", "InUse") == 0


def test_other_environment_entries_are_left_alone(host: MemoryHost) -> None:
    assert host("--env", FACTORY + "anything=x", "--env", "ep_factory.Other.arena.max_mem=x")["error"] == ""


def test_the_providers_own_prefix_wins_with_a_warning(host: MemoryHost) -> None:
    result = host("--session", "ep.cuda.arena.max_mem=1000000", "--session",
                  "ep.cudaexecutionprovider.arena.max_mem=2000000", "--open", "--run", "4", "--stats", "run",
                  "--close")  # fmt: skip
    assert number(result, "run", "Limit") == 2000000
    assert "ep.cuda.arena.max_mem='1000000' is ignored" in result["log"]


def test_equal_values_under_both_prefixes_are_no_warning(host: MemoryHost) -> None:
    result = host("--session", "ep.cuda.arena.max_mem=2000000", "--session",
                  "ep.cudaexecutionprovider.arena.max_mem=2000000", "--open", "--close")  # fmt: skip
    assert result["error"] == "" and "is ignored" not in result["log"]


def test_untagged_requests_are_named(host: MemoryHost) -> None:
    """Newer hosts name a stream with every request; older ones do not for the block of a known shape."""
    nodes = ("--session", "ep.cuda.compiled_regions=0")
    runs = ("--open", "--run", "4", "--run", "4", "--close")
    result = host(*nodes, "--session", "ep.cuda.debug.require_stream_tags=1", *runs)
    assert result["error"] == ""
    refused = "asked for 8192 bytes without naming a stream" in result["log"]
    assert refused == (host.version < (1, 29))


def test_the_budget_holds_for_everything(host: MemoryHost) -> None:
    limit = WEIGHTS + (2 << 20)
    result = host("--session", f"ep.cuda.gpu_mem_limit={limit}", "--open", "--run", "4", "--run", "100000")
    assert "Allocation failed" in result["error"] or "[CUDAEP_OUT_OF_MEMORY]" in result["error"]
    assert "[CUDAEP_OUT_OF_MEMORY]" in result["log"]


def test_callbacks_see_every_byte_and_get_it_back(host: MemoryHost) -> None:
    result = host("--external", "--open", "--run", "4", "--run", "4000", "--run", "4", "--close", "--stats", "shared")
    assert result["error"] == ""
    calls = result["callbacks"]
    assert calls["alloc"] >= 3 + 2  # the weights, and tensors
    assert calls["free"] == calls["alloc"]
    assert number(result, "shared", "NumAllocs") == calls["alloc"]
    assert number(result, "shared", "InUse") == 0


def test_callbacks_are_asked_to_empty_their_cache(host: MemoryHost) -> None:
    if host.version < (1, 25):
        pytest.skip("hosts before 1.25 cannot shrink a plug-in's memory")
    result = host("--external", "--open", "--run-entry", "memory.enable_memory_arena_shrinkage=gpu:0", "--run", "4",
                  "--close")  # fmt: skip
    assert result["error"] == ""
    assert result["callbacks"]["empty_cache"] >= 1
