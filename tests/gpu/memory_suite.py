"""What memory must look like on a real GPU: `python -m tests.gpu.memory_suite LIBRARY`, one JSON line a check.

Beside the library it needs PyTorch, whose view of the device (driver totals, its own allocator's accounting) is the
second opinion. Checks that need two GPUs are skipped on a machine with one.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import onnxruntime as ort
import torch

from tests.session import models
from tests.session.suite import EP, SkippedError, devices, run_checks

MIB = 2**20
# What one allocation granule of the driver may add to a comparison of totals.
GRANULE = 2 * MIB


def open_session(model: bytes, options: dict[str, str] | None = None, device: int = 0) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    settings.add_provider_for_devices([devices()[device]], options or {})
    created = ort.InferenceSession(model, settings, enable_fallback=0)
    created.disable_fallback()
    return created


def used(device: int = 0) -> int:
    """Bytes in use on a device, of all processes: the machine must be otherwise idle."""
    torch.cuda.synchronize(device)
    free, total = torch.cuda.mem_get_info(device)
    return int(total - free)


def run(session: ort.InferenceSession, rows: int, shrink: str | None = None) -> np.ndarray:
    options = ort.RunOptions()
    if shrink is not None:
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", shrink)
    feeds = {"v0": np.ones((rows, 1024), np.float32)}
    (result,) = session.run(None, feeds, options)
    return np.asarray(result)


def in_thread(work: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def report(**numbers: float) -> None:
    print(" ".join(f"{name}={value:.2f}" for name, value in numbers.items()), flush=True)


def check_memory_is_flat_over_fresh_threads() -> None:
    """1,000 Runs, each from a new thread: no more memory after the last one than after the fifth."""
    session = open_session(models.product_chain(4, 1024))
    after_five = 0
    for index in range(1000):
        in_thread(functools.partial(run, session, 256))
        if index == 4:
            after_five = used()
    grown = used() - after_five
    report(grown_mib=grown / MIB)
    assert grown <= 0, f"{grown} bytes more after 1,000 Runs than after 5"


def check_memory_is_flat_over_a_pool_of_threads() -> None:
    """64 threads that come and go over two sessions.

    How many Runs overlap, and so how many streams with scratch memory there are in the end, differs from round to round
    by some ten; what grows by a stream's memory a round is far beyond all early rounds at the end.
    """
    sessions = [open_session(models.product_chain(3, 1024)) for _ in range(2)]
    totals = []
    for _ in range(30):
        threads = [threading.Thread(target=run, args=(sessions[i % 2], 64 + i)) for i in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        totals.append(used())
    early, late = totals[:10], totals[-10:]
    report(early_least=min(early) / MIB, early_most=max(early) / MIB, late_least=min(late) / MIB)
    assert min(late) <= max(early), totals


def check_memory_returns_after_each_session() -> None:
    """100 sessions of three models in turn: what is in use after each is what was after the second cycle."""
    kinds = [models.product_chain(4, 1024), models.add_chain(20), models.product_chain(16, 512)]
    feeds = [
        {"v0": np.ones((64, 1024), np.float32)},
        {"v0": np.ones(1000, np.float32), "b": np.ones(1000, np.float32)},
        {"v0": np.ones((64, 512), np.float32)},
    ]
    baseline = 0
    for cycle in range(100):
        session = open_session(kinds[cycle % 3])
        session.run(None, feeds[cycle % 3])
        del session
        gc.collect()
        if cycle == 5:  # two cycles of all three
            baseline = used()
    grown = used() - baseline
    report(grown_mib=grown / MIB)
    assert abs(grown) <= 8 * MIB, f"{grown} bytes more than after the second cycle"


def check_a_giant_batch_leaves_nothing_behind() -> None:
    """After one giant batch and a Run that shrinks, the device is within 5% of the small batch's footprint."""
    before = used()
    session = open_session(models.product_chain(4, 1024))
    for _ in range(3):
        run(session, 65536, "gpu:0")
    small = used() - before
    run(session, 1048576)
    giant = used() - before
    run(session, 65536, "gpu:0")
    after = used() - before
    report(small_mib=small / MIB, giant_mib=giant / MIB, after_mib=after / MIB)
    assert giant > 4 * small, (small, giant)
    assert after <= small * 1.05, f"{after} bytes after the shrink, {small} before the giant batch"


def check_the_limit_holds() -> None:
    """With gpu_mem_limit the process takes at most that and 64 MiB more beyond what the empty context takes."""
    model = models.product_chain(8, 1024)
    warm = open_session(model)  # context, modules and libraries of the process
    run(warm, 16)
    del warm
    gc.collect()
    limit = 512 * MIB
    before = used()
    session = open_session(model, {"gpu_mem_limit": str(limit)})
    rows, refused = 1024, ""
    while rows <= 2**22 and not refused:
        try:
            run(session, rows)
        except Exception as error:
            refused = str(error)
        taken = used() - before
        assert taken <= limit + 64 * MIB, f"{taken} bytes taken with {rows} rows under a limit of {limit}"
        rows *= 2
    report(rows_refused=rows / 2, taken_mib=taken / MIB)
    assert "[CUDAEP_OUT_OF_MEMORY]" in refused, refused
    np.testing.assert_equal(run(session, 16).shape, (16, 1024))


@contextmanager
def torch_callbacks() -> Iterator[tuple[dict[str, str], dict[str, int]]]:
    """Provider options that take device memory from PyTorch's caching allocator, and how often each was called."""
    calls = {"alloc": 0, "free": 0, "empty": 0}

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
    def alloc(size: int) -> int:
        calls["alloc"] += 1
        return int(torch.cuda.caching_allocator_alloc(size, 0, torch.cuda.current_stream(0)))

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def free(pointer: int) -> None:
        calls["free"] += 1
        torch.cuda.caching_allocator_delete(pointer)

    @ctypes.CFUNCTYPE(None)
    def empty() -> None:
        calls["empty"] += 1
        torch.cuda.empty_cache()

    address = {
        name: str(ctypes.cast(f, ctypes.c_void_p).value)
        for name, f in (("alloc", alloc), ("free", free), ("empty_cache", empty))
    }
    yield {f"gpu_external_{name}": value for name, value in address.items()}, calls


def check_torch_lends_all_memory() -> None:
    """With PyTorch's allocator behind the session, PyTorch's accounting shows every byte the session takes."""
    model = models.product_chain(8, 1024)
    warm = open_session(model)
    run(warm, 4096)
    del warm
    gc.collect()
    with torch_callbacks() as (options, calls):
        torch.cuda.empty_cache()
        reserved, total = torch.cuda.memory_reserved(), used()
        session = open_session(model, options)
        run(session, 4096)
        by_torch, by_driver = torch.cuda.memory_reserved() - reserved, used() - total
        report(torch_mib=by_torch / MIB, driver_mib=by_driver / MIB, **{k: float(v) for k, v in calls.items()})
        assert calls["alloc"] > 0 and by_torch > 8 * 4 * MIB
        assert by_driver - by_torch <= GRANULE, f"{by_driver - by_torch} bytes that PyTorch does not know of"
        stream = torch.cuda.Stream()
        with_stream = open_session(model, {**options, "user_compute_stream": str(stream.cuda_stream)})
        run(with_stream, 128)
        del session, with_stream
        gc.collect()
        assert calls["free"] == calls["alloc"], calls


def check_values_the_caller_owns_add_nothing() -> None:
    """Inputs and outputs bound on the device are used in place."""
    session = open_session(models.product_chain(1, 1024))
    x = torch.ones((65536, 1024), device="cuda")
    y = torch.empty_like(x)
    binding = session.io_binding()
    shape = list(x.shape)
    binding.bind_input("v0", "cuda", 0, np.float32, shape, x.data_ptr())
    binding.bind_output("v1", "cuda", 0, np.float32, shape, y.data_ptr())
    torch.cuda.synchronize()
    before = used()
    for _ in range(3):
        session.run_with_iobinding(binding)
    grown = used() - before
    report(grown_mib=grown / MIB)
    assert grown < x.numel() * 4 // 2, f"{grown} bytes for values that the caller owns"
    assert bool(torch.isfinite(y).all())


# Reads the driver's totals until its input ends, then prints the least that was free. A process of its own: creating a
# session may keep this interpreter's lock.
WATCH = """
import ctypes, select, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
least, looks = sys.maxsize, 0
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    least, looks = min(least, free.value), looks + 1
print(total.value - least, looks)
"""


@contextmanager
def watched_peak() -> Iterator[dict[str, int]]:
    """The most in use on the device while the block ran, and how often that was looked at."""
    seen: dict[str, int] = {}
    command = [sys.executable, "-c", WATCH]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        seen["before"] = used()
        yield seen
        peak, looks = child.communicate()[0].split()
        seen.update(peak=int(peak), looks=int(looks))


def check_weights_are_loaded_once() -> None:
    """Session creation takes the bytes of the weights and at most 5% more at its peak, beside a fixed part."""
    warm = open_session(models.product_chain(1, 1024))
    run(warm, 16)
    with watched_peak() as seen:
        session = open_session(models.product_chain(16, 2048))  # 256 MiB
    taken = seen["peak"] - seen["before"]
    report(weights_mib=256, taken_mib=taken / MIB, looks=seen["looks"])
    assert seen["looks"] > 100, "the device was hardly looked at"
    assert 256 * MIB <= taken <= 256 * MIB * 1.05, f"{taken} bytes for 256 MiB of weights"
    del session, warm


def check_two_gpus_are_isolated() -> None:
    """A session on the second GPU takes nothing on the first, and no call changes the caller's device."""
    if torch.cuda.device_count() < 2 or len(devices()) < 2:
        raise SkippedError("one GPU only")
    for device in range(2):
        torch.zeros(1, device=f"cuda:{device}")
    for own, other in ((1, 0), (0, 1)):
        torch.cuda.set_device(other)
        before = used(other)
        session = open_session(models.product_chain(8, 1024), device=own)
        for rows in (64, 4096, 512):
            in_thread(functools.partial(run, session, rows))
            run(session, rows)
        assert torch.cuda.current_device() == other, "the caller's device was changed"
        grown = used(other) - before
        report(own=own, other_mib=grown / MIB)
        assert grown == 0, f"{grown} bytes on GPU {other} for a session on GPU {own}"
        del session
        gc.collect()
        assert torch.cuda.current_device() == other, "the caller's device was changed"


if __name__ == "__main__":
    assert EP
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    run_checks(globals())
