"""What must hold with several devices, on every supported host: run as a child process, one JSON line a check.

    CUDAEP_SIM_DEVICES=3 python -m tests.session.device_suite LIBRARY

The current device of the calling thread has no interface here: tests/session/current_device.py watches that.
"""

from __future__ import annotations

import itertools
import threading
import warnings

import numpy as np
import onnxruntime as ort

from tests.session import models
from tests.session.suite import EP, SkippedError, add_provider, devices, error_of, run_checks

HOST = tuple(int(part) for part in ort.__version__.split(".")[:2])
FINDS_DEVICE_ID = (1, 28)  # selects by the provider option device_id itself


def several_devices() -> list[ort.OrtEpDevice]:
    found = devices()
    if len(found) < 2:
        raise SkippedError(f"needs 2 devices, has {len(found)}")
    return found


def open_on(
    chosen: list[ort.OrtEpDevice],
    options: dict[str, str] | None = None,
    entries: dict[str, str] | None = None,
    model: bytes | None = None,
) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for key, value in (entries or {}).items():
        settings.add_session_config_entry(key, value)
    add_provider(settings, options, chosen)
    created = ort.InferenceSession(model or models.add_chain(2), settings, enable_fallback=0)
    created.disable_fallback()
    return created


def ordinals_of(session: ort.InferenceSession) -> set[int]:
    """Where the host will put a session's inputs and outputs."""
    return {info.device_id for info in (*session.get_input_memory_infos(), *session.get_output_memory_infos())}


def feeds(length: int, value: float = 1) -> dict[str, np.ndarray]:
    return {"v0": np.full(length, value, np.float32), "b": np.ones(length, np.float32)}


def check_every_device_is_shown_once() -> None:
    """In the order of CUDA's ordinals, each with an identity of its own."""
    found = several_devices()
    assert [device.ep_metadata["cuda_ordinal"] for device in found] == [str(i) for i in range(len(found))]
    for key in ("uuid", "pci_bus_id", "cuda_device_id"):
        assert len({device.ep_metadata[key] for device in found}) == len(found), key


def check_the_nth_device_is_that_ordinal() -> None:
    """A session on it has inputs and outputs there, and its numbers are right."""
    found = several_devices()
    for ordinal, device in enumerate(found):
        chain = open_on([device])
        assert ordinals_of(chain) == {ordinal}
        np.testing.assert_array_equal(chain.run(None, feeds(5, ordinal))[0], np.full(5, ordinal + 2, np.float32))


def check_sessions_on_all_devices_run_side_by_side() -> None:
    """Each from a thread of its own, in turns on one thread too."""
    found = several_devices()
    sessions = [open_on([device]) for device in found]
    wrong: list[int] = []

    def work(ordinal: int) -> None:
        for length in range(1, 40):
            if not np.array_equal(sessions[ordinal].run(None, feeds(length))[0], np.full(length, 3, np.float32)):
                wrong.append(ordinal)

    threads = [threading.Thread(target=work, args=(ordinal,)) for ordinal in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ordinal in (*range(len(found)), *reversed(range(len(found)))):
        work(ordinal)
    assert not wrong, wrong


def check_device_id_must_agree_with_the_device() -> None:
    """As a session entry, which every host passes on."""
    found = several_devices()
    for ordinal, device in enumerate(found):
        agreeing = {"ep.cuda.device_id": str(ordinal)}
        assert ordinals_of(open_on([device], entries=agreeing)) == {ordinal}
        other = str((ordinal + 1) % len(found))
        text = error_of(lambda device=device, other=other: open_on([device], entries={"ep.cuda.device_id": other}))
        assert f"device_id={other}" in text and f"ordinal {ordinal}" in text, text


def check_device_id_by_provider_name_picks_that_ordinal() -> None:
    """`providers=[(name, {"device_id": ...})]`, on hosts that look for our devices by name."""
    found = several_devices()
    if HOST < FINDS_DEVICE_ID:
        raise SkippedError("this host has no look-up of plug-in devices by provider name and device_id")
    for ordinal in range(len(found)):
        for value in (str(ordinal), ordinal):
            chain = ort.InferenceSession(models.add_chain(2), providers=[(EP, {"device_id": value})])
            assert chain.get_providers()[0] == EP, chain.get_providers()
            assert ordinals_of(chain) == {ordinal}, (ordinal, ordinals_of(chain))
    first = ort.InferenceSession(models.add_chain(2), providers=[EP])
    assert ordinals_of(first) == {0}
    with warnings.catch_warnings():  # of the host, before it goes on without us
        warnings.simplefilter("ignore")
        absent = ort.InferenceSession(models.add_chain(2), providers=[(EP, {"device_id": "77"})], enable_fallback=0)
    assert absent.get_providers() == ["CPUExecutionProvider"]


def check_one_device_a_session() -> None:
    """Two are refused with a text that says so."""
    found = several_devices()
    text = error_of(lambda: open_on(found[:2]))
    assert "one device a session, not 2" in text, text


def check_values_live_on_the_device_they_were_made_for() -> None:
    """Made, fed to a session there, bound as its output, read back."""
    for ordinal, device in enumerate(several_devices()):
        x = ort.OrtValue.ortvalue_from_numpy(np.arange(6, dtype=np.float32), "gpu", ordinal, 0x10DE)
        b = ort.OrtValue.ortvalue_from_numpy(np.ones(6, np.float32), "gpu", ordinal, 0x10DE)
        chain = open_on([device])
        binding = chain.io_binding()
        binding.bind_ortvalue_input("v0", x)
        binding.bind_ortvalue_input("b", b)
        result = ort.OrtValue.ortvalue_from_numpy(np.zeros(6, np.float32), "gpu", ordinal, 0x10DE)
        binding.bind_ortvalue_output("v2", result)
        chain.run_with_iobinding(binding)
        assert {value.device_name() for value in (x, b, result)} == {"cuda"}
        np.testing.assert_array_equal(result.numpy(), np.arange(6, dtype=np.float32) + 2)


def check_values_of_another_device_are_copied() -> None:
    """An input that lies on another device than the session's."""
    found = several_devices()
    for ordinal in range(len(found)):
        other = (ordinal + 1) % len(found)
        values = {
            name: ort.OrtValue.ortvalue_from_numpy(array, "gpu", other, 0x10DE) for name, array in feeds(9).items()
        }
        (result,) = open_on([found[ordinal]]).run_with_ort_values(["v2"], values)
        np.testing.assert_array_equal(result.numpy(), np.full(9, 3, np.float32))


def check_tensors_are_copied_between_devices() -> None:
    """Through the host's copy function: host to device, to another one, and back."""
    found = several_devices()
    x = np.arange(100, dtype=np.float32)
    here = [
        ort.OrtValue.ortvalue_from_numpy(np.zeros(100, np.float32), "gpu", ordinal, 0x10DE)
        for ordinal in range(len(found))
    ]
    chain = [ort.OrtValue.ortvalue_from_numpy(x), *here, here[0]]
    for source, destination in itertools.pairwise(chain):
        ort.copy_tensors([source], [destination])
    for value in here:
        np.testing.assert_array_equal(value.numpy(), x)


def check_memory_is_given_back_on_the_named_device() -> None:
    """`gpu:<ordinal>` in a Run that asks for it."""
    if HOST < (1, 25):
        raise SkippedError("hosts before 1.25 cannot shrink a plug-in's memory")
    for ordinal, device in enumerate(several_devices()):
        chain = open_on([device])
        options = ort.RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", f"gpu:{ordinal}")
        np.testing.assert_array_equal(chain.run(None, feeds(3000), options)[0], np.full(3000, 3, np.float32))
        np.testing.assert_array_equal(chain.run(None, feeds(7))[0], np.full(7, 3, np.float32))


if __name__ == "__main__":
    run_checks(globals())
