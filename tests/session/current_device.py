"""Nothing the host does with the provider changes the caller's current device: one JSON line a check.

    CUDAEP_SIM_DEVICES=3 python -m tests.session.current_device LIBDEVICE_WATCH

Every operation runs in fresh threads, each with another device current, on a session of yet another one. The library
is the plug-in with a view on its device layer (tests/session/device_watch).
"""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import onnxruntime as ort

from tests.session import models
from tests.session.device_suite import HOST, feeds, open_on, several_devices
from tests.session.suite import EP, SkippedError, error_of, run_checks

T = TypeVar("T")


@functools.cache
def watch() -> ctypes.CDLL:
    """The library of the command line, which the host has loaded too."""
    return ctypes.CDLL(sys.argv[1])


def owner_of(value: ort.OrtValue) -> int:
    """The ordinal that a value's memory belongs to; -1 for host memory that no driver knows."""
    return watch().DeviceWatchOwner(ctypes.c_void_p(value.data_ptr()))


def in_fresh_thread(current: int | None, call: Callable[[], T]) -> T:
    """What `call` gives in a thread with device `current` set, or none set yet; fails if another is current then."""
    result: list[T] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            if current is not None:
                assert watch().DeviceWatchSet(current) == current
            result.append(call())
            gc.collect()
            now = watch().DeviceWatchGet()
            assert now == (current or 0), f"device {current} was current before the call and {now} after it"
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return result[0]


def cases() -> list[tuple[int | None, int]]:
    """Each device that can be current, and each that a session can be on."""
    count = len(several_devices())
    return list(itertools.product((None, *range(count)), range(count)))


def device_value(ordinal: int, length: int = 6) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_numpy(np.arange(length, dtype=np.float32), "gpu", ordinal, 0x10DE)


def check_the_watch_sees_a_change() -> None:
    """The negative test of this suite."""
    several_devices()
    text = error_of(lambda: in_fresh_thread(0, lambda: watch().DeviceWatchSet(1)))
    assert "device 0 was current before the call and 1 after it" in text, text


def check_sessions_runs_and_their_end() -> None:
    """Each step in a thread of its own: creation, first Run, later Runs, a failing one, destruction."""
    bad = {"v0": np.ones(3, np.float32), "b": np.ones(2, np.float32)}

    def steps(current: int | None, device: ort.OrtEpDevice) -> None:
        held = [in_fresh_thread(current, lambda: open_on([device]))]

        def run(length: int) -> np.ndarray:
            return in_fresh_thread(current, lambda: held[0].run(None, feeds(length))[0])

        for length in (4, 4, 4000, 0):
            np.testing.assert_array_equal(run(length), np.full(length, 3, np.float32))
        assert "Add" in in_fresh_thread(current, lambda: error_of(lambda: held[0].run(None, bad)))
        in_fresh_thread(current, held.clear)

    for current, ordinal in cases():
        steps(current, several_devices()[ordinal])


def check_sessions_that_fail() -> None:
    """A bad option, a model that is none."""
    for current, ordinal in cases():
        device = several_devices()[ordinal]
        for options, model in (({"gpu_mem_limit": "x"}, None), ({}, b"no model")):
            in_fresh_thread(
                current, lambda d=device, o=options, m=model: error_of(lambda: open_on([d], options=o, model=m))
            )


def check_memory_options() -> None:
    """Every way in which a session can get its memory."""
    for options in (
        {"arena.enable": "0"},
        {"arena.use_cuda_mempool": "1"},
        {"gpu_mem_limit": "100000000"},
        {"use_ep_level_unified_stream": "1"},
    ):
        for current, ordinal in cases():
            device = several_devices()[ordinal]
            held = [in_fresh_thread(current, lambda d=device, o=options: open_on([d], options=o))]
            in_fresh_thread(current, lambda held=held: held[0].run(None, feeds(100)))
            in_fresh_thread(current, held.clear)


def check_values_and_copies() -> None:
    """Made on a device, copied between devices and to the host, freed; the memory belongs to the named device."""
    for current, ordinal in cases():
        other = (ordinal + 1) % len(several_devices())
        held = [in_fresh_thread(current, lambda o=o: device_value(o)) for o in (ordinal, other)]
        assert [owner_of(value) for value in held] == [ordinal, other]
        in_fresh_thread(current, lambda held=held: ort.copy_tensors([held[0]], [held[1]]))
        result = in_fresh_thread(current, lambda held=held: held[1].numpy())
        np.testing.assert_array_equal(result, np.arange(6, dtype=np.float32))
        in_fresh_thread(current, held.clear)


def check_bindings() -> None:
    """Inputs and outputs on the session's device and on another one."""
    for current, ordinal in cases():
        for place in range(len(several_devices())):
            chain = open_on([several_devices()[ordinal]])
            held = [chain.io_binding(), device_value(place), device_value(place)]

            def run(held: list = held, chain: ort.InferenceSession = chain, place: int = place) -> ort.OrtValue:
                binding, x, b = held
                binding.bind_ortvalue_input("v0", x)
                binding.bind_ortvalue_input("b", b)
                output = device_value(place)
                binding.bind_ortvalue_output("v2", output)
                chain.run_with_iobinding(binding)
                binding.synchronize_outputs()
                return output

            output = in_fresh_thread(current, run)
            assert owner_of(output) == place
            np.testing.assert_array_equal(output.numpy(), np.arange(6, dtype=np.float32) * 3)
            in_fresh_thread(current, held.clear)


def check_streams() -> None:
    """Made by the application, used for a copy, released."""
    for current, ordinal in cases():
        device = several_devices()[ordinal]
        held = [in_fresh_thread(current, device.create_sync_stream)]
        source, destination = device_value(ordinal), device_value(ordinal)
        in_fresh_thread(current, lambda s=source, d=destination, held=held: ort.copy_tensors([s], [d], held[0]))
        in_fresh_thread(current, held.clear)


def check_giving_memory_back() -> None:
    """A Run that asks the device's allocators to shrink."""
    if HOST < (1, 25):
        raise SkippedError("hosts before 1.25 cannot shrink a plug-in's memory")
    for current, ordinal in cases():
        chain = open_on([several_devices()[ordinal]])
        options = ort.RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", f"gpu:{ordinal}")
        in_fresh_thread(current, lambda chain=chain, options=options: chain.run(None, feeds(5000), options))


def check_memory_of_a_network() -> None:
    """Convolutions and products bring library handles and scratch memory, which belong to the session's device."""
    x = {"x": np.random.default_rng(3).standard_normal((2, 3, 32, 32), dtype=np.float32)}
    expected = None
    for current, ordinal in cases():
        network = open_on([several_devices()[ordinal]], model=models.residual_network())
        (result,) = in_fresh_thread(current, lambda network=network: network.run(None, x))
        expected = result if expected is None else expected
        np.testing.assert_array_equal(result, expected)


def check_registration_and_its_end() -> None:
    """Last, since it takes the devices away."""
    for current, _ in cases():
        gc.collect()
        in_fresh_thread(current, lambda: ort.unregister_execution_provider_library(EP))
        in_fresh_thread(current, lambda: ort.register_execution_provider_library(EP, sys.argv[1]))
        in_fresh_thread(current, ort.get_ep_devices)


if __name__ == "__main__":
    run_checks(globals())
